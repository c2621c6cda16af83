import { type ComponentChildren, Fragment } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { useRoute } from 'preact-iso/router'
import { items } from '../feed.js'
import { deviceKind } from '../model/device-kind.js'
import { propertySearch } from '../model/device-search.js'
import { deviceTitle } from '../model/device-title.js'
import { deviceState, slotsOf } from '../model/device-use.js'
import { podLines } from '../model/pod-lines.js'
import {
  configurationOf,
  NOT_READ,
  type ShownDevice,
  type ShownEvents,
  searchHref,
} from '../model/shown.js'
import { agoText } from '../model/time-text.js'
import { CopyText } from '../parts/copy-text.js'
import { KindIcon } from '../parts/icons.js'

export function DevicePage() {
  const { params } = useRoute()
  const key = `${params.namespace}/${params.name}`
  const { devices, events, outages } = items.value
  const device = devices.get(key)
  const history = events.get(`Instance/${key}`)?.events ?? []
  if (device === undefined && outages.unread.includes('device'))
    return (
      <>
        <Back />
        <div class="empty">
          <p>{NOT_READ}</p>
        </div>
      </>
    )
  if (device === undefined)
    return (
      <>
        <Back />
        <div class="empty">
          <h1>
            <bdi>{params.name}</bdi> is not there
          </h1>
          <p>
            The device is gone, or it has never been there. This page shows it if it comes back.
          </p>
        </div>
        {history.length > 0 && <History events={history} />}
      </>
    )
  return <Device device={device} events={history} />
}

interface DeviceProps {
  readonly device: ShownDevice
  readonly events: ShownEvents['events']
}

function Device({ device, events }: DeviceProps) {
  const { metadata, spec, status } = device.object
  const configuration = items.value.configurations.get(configurationOf(device))
  const { title, detail } = deviceTitle(spec.brokerProperties, device.known)
  const { health, text } = deviceState(device)
  const reports = Object.entries(status?.brokerInfo ?? {})
  const handler = configuration?.object.spec.discoveryHandler.name
  return (
    <article>
      <Back />
      <header class="device-head">
        <KindIcon kind={deviceKind(spec.brokerProperties, handler)} />
        <div>
          <h1>
            <bdi>{title}</bdi>
          </h1>
          <p class="quiet">
            {detail !== '' && (
              <>
                <bdi>{detail}</bdi>
                {' · '}
              </>
            )}
            <code>{metadata.name}</code>
          </p>
        </div>
      </header>
      {text !== '' && (
        <p class={`state state-${health} state-line`}>
          <bdi>{text}</bdi>
        </p>
      )}
      <div class="columns">
        <div>
          <Section title="Properties">
            <Table
              head={['Name', 'Value']}
              rows={Object.entries(spec.brokerProperties).map(([name, value]) => [
                <PropertyName key="name" name={name} />,
                <a
                  key="value"
                  href={searchHref({ q: propertySearch(name, value) })}
                  title="Devices with this value"
                >
                  <bdi class="value">{value}</bdi>
                </a>,
              ])}
              none="The device has none."
            />
          </Section>
          <History events={events} />
          <Yaml device={device} />
        </div>
        <div>
          <Section title="Slots">
            <Table
              head={['Slot', 'Use']}
              rows={slotsOf(device).map(({ name, holder }) => [
                <code key="slot">{name}</code>,
                <span key="use" class={holder === '' ? 'quiet' : ''}>
                  <span class={holder === '' ? 'dot' : 'dot dot-used'} aria-hidden="true" />{' '}
                  {holder || 'free'}
                </span>,
              ])}
              none="The device has none."
            />
            <BrokerLine device={device} />
          </Section>
          {reports.length > 0 && (
            <Section title="Reported by brokers">
              <Table
                head={['Name', 'Content']}
                rows={reports.map(([name, content]) => [
                  <code key="name">{name}</code>,
                  <Report key="content" content={content} />,
                ])}
                none=""
              />
            </Section>
          )}
          <Section title="For a Pod">
            {podLines(device, configuration).map((lines) => (
              <div key={lines.title}>
                <h3>{lines.title}</h3>
                <CopyText text={lines.text} label={`lines for ${lines.title.toLowerCase()}`} />
              </div>
            ))}
          </Section>
          <Facts device={device} handler={handler} />
        </div>
      </div>
    </article>
  )
}

/** A long name may break after each of its words. */
function PropertyName({ name }: { readonly name: string }) {
  const words = name.split(/(?<=_)/)
  return (
    <code>
      {words.map((word, index) => (
        <Fragment key={index}>
          {word}
          <wbr />
        </Fragment>
      ))}
    </code>
  )
}

function Back() {
  return (
    <p class="back">
      <a href="/devices">
        <span aria-hidden="true">←</span> Devices
      </a>
    </p>
  )
}

function BrokerLine({ device: { broker } }: { readonly device: ShownDevice }) {
  if (broker?.phase !== 'running' || broker.pid === undefined) return null
  return <p class="quiet small">The broker is process {broker.pid} of this machine.</p>
}

function Facts(props: { readonly device: ShownDevice; readonly handler: string | undefined }) {
  const { metadata, spec } = props.device.object
  const facts = [
    ['Configuration', configurationOf(props.device)],
    ['Handler', props.handler ?? 'unknown'],
    ['Nodes', spec.nodes.join(', ') || 'none'],
    ['Shared by nodes', spec.shared ? 'yes' : 'no'],
    ['Found', metadata.creationTimestamp ?? 'unknown'],
  ]
  return (
    <Section title="About">
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  )
}

/** A report can be the address of a page of its broker: a link that says where it leads. */
function Report({ content }: { readonly content: string }) {
  const text = content.trim()
  if (!/^https?:\/\/\S+$/.test(text) || !URL.canParse(text))
    return <bdi class="value lines">{text}</bdi>
  return (
    <span class="away">
      <a href={text} target="_blank" rel="noopener noreferrer">
        <bdi>{text}</bdi>
      </a>
    </span>
  )
}

/** How often the times of a history are drawn again, in milliseconds. */
const TIMES_MS = 30_000

function History({ events }: { readonly events: ShownEvents['events'] }) {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TIMES_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <Section title="History">
      {events.length === 0 ? (
        <p class="quiet">{nothingHappened()}</p>
      ) : (
        <ol class="history">
          {events.toReversed().map((event) => (
            <li class={`event event-${event.type}`} key={`${event.reason} ${event.message}`}>
              <p class="event-head">
                <strong>{event.reason}</strong>
                {event.count > 1 && <span class="quiet"> {event.count} times</span>}
                <time class="quiet" dateTime={event.lastTimestamp} title={event.lastTimestamp}>
                  {agoText(event.lastTimestamp, now)}
                </time>
              </p>
              <p class="lines">
                <bdi>{event.message}</bdi>
              </p>
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}

function nothingHappened(): string {
  const { about, outages } = items.value
  if (outages.unread.includes('events')) return NOT_READ
  return about.isCluster === true
    ? 'The cluster has no Events of the device.'
    : 'Nothing has happened to the device since the agent started.'
}

/** The YAML of the device. What writes it is loaded when a person opens it. */
function Yaml({ device: { object } }: { readonly device: ShownDevice }) {
  const [isOpen, setOpen] = useState(false)
  const [text, setText] = useState('')
  useEffect(() => {
    let isCurrent = true
    if (isOpen)
      void import('../parts/yaml-text.js').then(({ yamlText }) => {
        if (isCurrent) setText(yamlText(object))
      })
    return () => {
      isCurrent = false
    }
  }, [isOpen, object])
  return (
    <details class="section yaml" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>YAML</summary>
      {isOpen && text !== '' && <CopyText text={text} label="YAML of the device" />}
    </details>
  )
}

interface SectionProps {
  readonly title: string
  readonly children: ComponentChildren
}

function Section({ title, children }: SectionProps) {
  return (
    <section class="section">
      <h2>{title}</h2>
      {children}
    </section>
  )
}

interface TableProps {
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChildren[])[]
  readonly none: string
}

function Table({ head, rows, none }: TableProps) {
  if (rows.length === 0) return <p class="quiet">{none}</p>
  return (
    <table>
      <thead>
        <tr>
          {head.map((name) => (
            <th scope="col" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells, index) => (
          <tr key={index}>
            {cells.map((cell, column) => (
              <td key={column}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
