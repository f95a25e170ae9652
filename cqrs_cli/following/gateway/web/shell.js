/** The frame: navigation, search, colour scheme, token, lost connections, and the page at the present address. */

import { changeToken, connection, get, readToken } from "./client.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { useShortcuts } from "./keyboard.js";
import { Failure } from "./parts/basics.js";
import { ThemeButton } from "./parts/theme.js";
import { TokenDialog } from "./parts/token_dialog.js";
import { useResource } from "./resource.js";
import { linkTo, navigate, useAddress } from "./router.js";

export function Shell({ pages, navigation }) {
  const address = useAddress();
  const session = useResource((signal) => get("api/session", {}, signal), []);
  const shown = pages[address.page];
  const title = shown ? shown.title(address.parts, address.query) : "No such page";
  const place = `${address.page}/${address.parts.join("/")}`;
  const heading = useHeadingFocus(place, title);
  useShortcuts(navigation);
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), heading.current?.focus())}>
      Skip to the page
    </a>
    <${Sidebar} navigation=${navigation} present=${address.page} place=${place} />
    <div class="page">
      <${ConnectionNotice} />
      <main id="main" ref=${heading} tabindex="-1" aria-label=${title}>
        ${shown && session.data
          ? html`<${shown.Page} key=${`${place} ${session.data.rights}`} ...${address} session=${session.data} />`
          : html`<${NoPage} session=${session} />`}
      </main>
    </div>
    <${TokenDialog} />
  `;
}

function NoPage({ session }) {
  if (session.error) return html`<${Failure} error=${session.error} />`;
  return session.data ? html`<h1>No such page</h1><p><a href="#/">Overview</a></p>` : null;
}

/** Set the title, and move the focus to the page that was opened, as after loading a document. */
function useHeadingFocus(place, title) {
  const main = useRef(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · cqrs`;
  }, [title]);
  useEffect(() => {
    if (!isFirst.current) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [place]);
  return main;
}

function Sidebar({ navigation, present, place }) {
  const [isOpen, setOpen] = useState(false);
  const [hasToken, setHasToken] = useState(Boolean(readToken()));
  useEffect(() => setOpen(false), [place]);
  useEffect(() => {
    const update = () => setHasToken(Boolean(readToken()));
    connection.addEventListener("token-changed", update);
    return () => connection.removeEventListener("token-changed", update);
  }, []);
  return html`
    <header class="sidebar" data-open=${isOpen}>
      <a class="brand" href="#/">cqrs</a>
      <button class="quiet menu" aria-expanded=${isOpen} aria-controls="navigation" onClick=${() => setOpen(!isOpen)}>
        Menu
      </button>
      <div class="foldable" id="navigation">
        <${QuickSearch} />
        <nav aria-label="Pages">
          <ul>
            ${navigation.map(
              ({ page, name, key }) => html`
                <li>
                  <a href=${linkTo([page])} aria-current=${page === present ? "page" : undefined} title=${`g ${key}`}>
                    ${name}
                  </a>
                </li>
              `,
            )}
          </ul>
        </nav>
        <div class="tools">
          <${ThemeButton} />
          ${hasToken && html`<button class="quiet" onClick=${() => changeToken(null)}>Forget token</button>`}
        </div>
      </div>
    </header>
  `;
}

function QuickSearch() {
  const [text, setText] = useState("");
  const search = (event) => {
    event.preventDefault();
    if (text.trim()) navigate(linkTo(["search"], { q: text.trim() }));
  };
  return html`
    <form role="search" onSubmit=${search}>
      <input
        id="quick-search"
        type="search"
        placeholder="Search  /"
        aria-label="Search ids, commands and data"
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
      />
    </form>
  `;
}

function ConnectionNotice() {
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    const lose = () => setLost(true);
    const regain = () => setLost(false);
    connection.addEventListener("unreachable", lose);
    connection.addEventListener("reachable", regain);
    return () => {
      connection.removeEventListener("unreachable", lose);
      connection.removeEventListener("reachable", regain);
    };
  }, []);
  return html`
    <div role="status" class="connection">
      ${isLost && html`<p class="notice warning">The gateway does not answer. The console tries again.</p>`}
    </div>
  `;
}
