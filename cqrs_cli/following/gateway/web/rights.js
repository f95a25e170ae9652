/** What the reader may do: the rights of the token, unless the gateway is read-only. */

const has = (session, right) => session.rights.includes(right) && !session.read_only;

export const maySend = (session) => has(session, "send");
export const mayOperate = (session) => has(session, "operate");
export const mayErase = (session) => has(session, "erase");
