import { items } from '../feed.js'
import { type HandlerUse, handlerUses } from '../model/handler-use.js'
import { counted, NOT_READ, searchHref } from '../model/shown.js'

export function HandlersPage() {
  const uses = handlerUses(items.value)
  const { about, outages } = items.value
  // An option names a handler that cannot be loaded.
  const notLoaded = items.value.problems.filter(({ file }) => file.startsWith('--'))
  return (
    <>
      <div class="title-line">
        <h1>Handlers</h1>
        <p class="quiet" role="status">
          {counted(uses.length, 'handler')}
        </p>
      </div>
      {notLoaded.length > 0 && (
        <ul class="notices notices-above">
          {notLoaded.map(({ file, message }) => (
            <li class="notice" key={message}>
              <span class="notice-subject">{file}: not loaded</span>
              <bdi class="notice-text">{message}</bdi>
            </li>
          ))}
        </ul>
      )}
      {uses.length === 0 ? (
        <div class="empty">
          <p>{outages.unread.includes('configuration') ? NOT_READ : none(about.isCluster)}</p>
        </div>
      ) : (
        <ul class="rows">
          {uses.map((use) => (
            <HandlerRow key={use.name} use={use} />
          ))}
        </ul>
      )}
    </>
  )
}

function none(isCluster = false): string {
  return isCluster
    ? 'No Configuration names a handler.'
    : 'No handler is loaded, and none has registered.'
}

const STATES: Readonly<Record<HandlerUse['state'], readonly [tone: string, text: string]>> = {
  connected: ['good', 'connected'],
  absent: ['bad', 'not connected'],
  unknown: ['quiet', 'state unknown'],
  unused: ['quiet', 'connected, no Configuration uses it'],
}

function HandlerRow({ use }: { readonly use: HandlerUse }) {
  const [tone, text] = STATES[use.state]
  return (
    <li class="row">
      <div class="row-names">
        <span class="row-title">
          <bdi>{use.name}</bdi>
        </span>
        <span class="row-detail">
          <bdi>{use.about}</bdi>
        </span>
      </div>
      <div>
        <p class={`condition tone-${tone}`}>{text}</p>
        {use.problems.map(({ configuration, text }) => (
          <p class="condition tone-bad" key={configuration}>
            <a href={searchHref({ configuration })}>
              <bdi>{configuration}</bdi>
            </a>
            : <bdi>{text}</bdi>
          </p>
        ))}
      </div>
      <div class="row-count">
        <span class="count">{counted(use.devices, 'device')}</span>
        <span class="row-detail">{counted(use.configurations, 'Configuration')}</span>
      </div>
    </li>
  )
}
