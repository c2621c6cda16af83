import type { UiAbout, UiItem } from '../../source.js'
import { items } from '../feed.js'
import { configurationState, noticesOf } from '../model/attention.js'
import { heldSlots } from '../model/device-use.js'
import { counted, NOT_READ, nameOf, type ShownConfiguration, searchHref } from '../model/shown.js'
import { SlotBar } from '../parts/slots.js'

/** The annotation of Kubernetes with the purpose of an object. */
const DESCRIPTION = 'kubernetes.io/description'
const TONES = ['bad', 'warn', 'good', 'quiet']

export function OverviewPage() {
  const { about, configurations, devices, handlers, outages, problems } = items.value
  const isRead = (kind: UiItem['kind']) => !outages.unread.includes(kind)
  const all = [...configurations.values()]
  const found = [...devices.values()]
  const notices = noticesOf(problems, all, found)
  const total = found.reduce((sum, { object }) => sum + object.spec.capacity, 0)
  const used = found.reduce((sum, device) => sum + heldSlots(device), 0)
  const states = [...handlers.values()].map(({ isConnected }) => isConnected)
  const isKnown = states.length === 0 || states.some((state) => state !== undefined)
  const connected = isKnown ? states.filter(Boolean).length : undefined
  const read = (kind: UiItem['kind'], value: number) => (isRead(kind) ? value : undefined)
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <dl class="figures">
        <Figure name="Devices" value={read('device', found.length)} href="/devices" />
        <Figure
          name="Slots in use"
          value={read('device', used)}
          of={total}
          note={`${(total - used).toLocaleString('en')} free`}
          href="/devices?state=used"
        />
        <Figure name="Configurations" value={read('configuration', all.length)} />
        <Figure name="Handlers" value={connected} of={handlers.size} href="/handlers" />
      </dl>
      <section aria-labelledby="attention">
        <h2 id="attention">Needs attention</h2>
        {notices.length === 0 ? (
          <p class="calm">Nothing needs attention.</p>
        ) : (
          <ul class="notices">
            {notices.map(({ subject, text, href }) => (
              <li class="notice" key={`${subject} ${text}`}>
                {href === undefined ? (
                  <bdi class="notice-subject">{subject}</bdi>
                ) : (
                  <a class="notice-subject" href={href}>
                    <bdi>{subject}</bdi>
                  </a>
                )}
                <bdi class="notice-text">{text}</bdi>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section aria-labelledby="configurations">
        <h2 id="configurations">Configurations</h2>
        {all.length === 0 ? (
          <p class="calm">{isRead('configuration') ? <None {...about} /> : NOT_READ}</p>
        ) : (
          <ul class="rows">
            {inOrder(all).map((configuration) => (
              <ConfigurationRow key={nameOf(configuration.object)} configuration={configuration} />
            ))}
          </ul>
        )}
      </section>
    </>
  )
}

function None({ isCluster = false }: UiAbout) {
  return isCluster ? (
    <>
      There are none. Apply one: <code>kubectl apply -f FILE</code>.
    </>
  ) : (
    <>
      There are none. Write a Configuration into a file that <code>akri run -f</code> follows.
    </>
  )
}

/** What needs a person comes first, and what has no devices last. */
function inOrder(all: readonly ShownConfiguration[]): ShownConfiguration[] {
  const rank = (each: ShownConfiguration) => TONES.indexOf(configurationState(each).tone)
  return all.toSorted((a, b) => rank(a) - rank(b) || (nameOf(a.object) < nameOf(b.object) ? -1 : 1))
}

function ConfigurationRow({ configuration }: { readonly configuration: ShownConfiguration }) {
  const { metadata, spec, status } = configuration.object
  const { tone, text } = configurationState(configuration)
  const { devices = 0, slots = { claimed: 0, total: 0 } } = status ?? {}
  const about = metadata.annotations?.[DESCRIPTION]
  return (
    <li class="row">
      <div class="row-names">
        <a class="row-title" href={searchHref({ configuration: nameOf(configuration.object) })}>
          <bdi>{metadata.name}</bdi>
        </a>
        <span class="row-detail">
          {spec.discoveryHandler.name}
          {about !== undefined && (
            <>
              {' · '}
              <bdi>{about}</bdi>
            </>
          )}
        </span>
      </div>
      <p class={`condition tone-${tone}`}>
        <bdi>{text}</bdi>
      </p>
      <div class="row-count">
        <span class="count">{counted(devices, 'device')}</span>
        {slots.total > 0 && (
          <>
            <SlotBar
              used={slots.claimed}
              total={slots.total}
              label={`${slots.claimed} of ${slots.total} slots in use`}
            />
            <span class="row-detail" aria-hidden="true">
              {slots.total - slots.claimed} of {slots.total} free
            </span>
          </>
        )}
      </div>
    </li>
  )
}

interface FigureProps {
  readonly name: string
  /** Undefined if it is unknown. */
  readonly value: number | undefined
  readonly of?: number
  readonly note?: string
  readonly href?: string
}

function Figure({ name, value, of, note, href }: FigureProps) {
  const content =
    value === undefined ? (
      'unknown'
    ) : (
      <>
        {value.toLocaleString('en')}
        {of !== undefined && <small> of {of.toLocaleString('en')}</small>}
      </>
    )
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        {href === undefined ? content : <a href={href}>{content}</a>}
        {value !== undefined && note !== undefined && <span class="figure-note">{note}</span>}
      </dd>
    </div>
  )
}
