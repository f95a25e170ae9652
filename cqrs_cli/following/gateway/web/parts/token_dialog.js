/** Asks for the gateway's token when a request needs one. */

import { changeToken, connection, readToken } from "../client.js";
import { html, useEffect, useRef, useState } from "../html.js";

export function TokenDialog() {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [wasWrong, setWasWrong] = useState(false);
  useEffect(() => {
    const ask = () => {
      setWasWrong(Boolean(readToken()));
      if (!dialog.current.open) dialog.current.showModal();
    };
    connection.addEventListener("token-needed", ask);
    return () => connection.removeEventListener("token-needed", ask);
  }, []);
  const use = (event) => {
    event.preventDefault();
    dialog.current.close();
    changeToken(text.trim());
    setText("");
  };
  return html`
    <dialog ref=${dialog} aria-labelledby="token-title">
      <form onSubmit=${use}>
        <h2 id="token-title">Token</h2>
        <p>This gateway requires a token. The console forgets it when you close the tab.</p>
        ${wasWrong && html`<p class="notice error" role="alert">The gateway does not accept the token.</p>`}
        <label>
          Token
          <input
            type="password"
            autocomplete="off"
            required
            value=${text}
            onInput=${(event) => setText(event.currentTarget.value)}
          />
        </label>
        <div class="buttons"><button class="primary">Use the token</button></div>
      </form>
    </dialog>
  `;
}
