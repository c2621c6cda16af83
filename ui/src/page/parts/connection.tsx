import { type Connection, connection } from '../feed.js'

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
  const notice = NOTICES[connection.value]
  return <div aria-live="assertive">{notice !== undefined && <p class="banner">{notice}</p>}</div>
}
