import { type Connection, connection, items } from '../feed.js'

const WORDS: Readonly<Record<Connection, string>> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'no connection',
  refused: 'new address',
  full: 'too many pages',
}

const NOTICES: Partial<Record<Connection, string>> = {
  lost:
    'The agent does not answer. This page tries again. If the agent was started again, open the ' +
    'address that it printed.',
  refused:
    'The agent was started again, and has a new address with a new token. Open the address that ' +
    'it printed; then this page goes on too.',
  full: 'Too many of these pages are open. Close one: then this page goes on.',
}

const NOTICES_OF_CLUSTER: typeof NOTICES = {
  ...NOTICES,
  lost:
    'akri ui does not answer. This page tries again. If akri ui was started again, open the ' +
    'address that it printed. Behind a proxy, reload the page to sign in again.',
  refused:
    'akri ui was started again, and has a new address with a new token: open the address that it ' +
    'printed. Behind a proxy, reload the page to sign in again.',
}

/** Whether the page is up to date. */
export function ConnectionState() {
  const state = connection.value
  return (
    <p class={`live live-${state}`} role="status">
      <span class="live-dot" aria-hidden="true" />
      {WORDS[state]}
    </p>
  )
}

export function ConnectionNotice() {
  const { about, outages } = items.value
  const notice = (about.isCluster === true ? NOTICES_OF_CLUSTER : NOTICES)[connection.value]
  // The messages of a server that does not answer may be old.
  const shown = notice === undefined ? outages.messages : [notice]
  return (
    <div aria-live="assertive">
      {shown.map((text) => (
        <p class="banner" key={text}>
          <bdi>{text}</bdi>
        </p>
      ))}
    </div>
  )
}
