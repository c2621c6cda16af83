import { useEffect, useMemo, useRef } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { items } from '../feed.js'
import { configurationState } from '../model/attention.js'
import { type DeviceQuery, findDevices, SORTS, STATES } from '../model/device-search.js'
import { configurationOf, counted, NOT_READ, nameOf, searchHref } from '../model/shown.js'
import { Choice } from '../parts/choice.js'
import { DeviceCard } from '../parts/device-card.js'
import { VirtualGrid } from '../parts/virtual-grid.js'

/** The size of a card with its gap, in rem. */
const CARD = { columnRem: 18.5, rowRem: 10 }

export function DevicesPage() {
  const { query, route } = useLocation()
  const { q = '', configuration = '', state = '', sort = '' }: DeviceQuery = query
  const { configurations, devices } = items.value
  const found = useMemo(
    () => findDevices([...devices.values()], { q, configuration, state, sort }),
    [devices, q, configuration, state, sort],
  )
  const ask = (change: Partial<Record<keyof DeviceQuery, string>>) => {
    const all = Object.entries({ q, configuration, state, sort, ...change })
    route(searchHref(Object.fromEntries(all.filter(([, value]) => value !== ''))), true)
  }
  const search = useRef<HTMLInputElement>(null)
  useEffect(() => focusBySlash(search), [])
  const names = [...configurations.values()].map(({ object }) => nameOf(object)).sort()
  return (
    <>
      <div class="title-line">
        <h1>Devices</h1>
        <p class="quiet" role="status">
          {found.length === devices.size
            ? counted(found.length, 'device')
            : `${found.length.toLocaleString('en')} of ${counted(devices.size, 'device')}`}
        </p>
      </div>
      <search class="tools">
        <label class="field field-search">
          <span class="hidden">Search in all properties; NAME=value for one of them</span>
          <input
            ref={search}
            type="search"
            placeholder="Search, or NAME=value for a property"
            value={q}
            onInput={(event) => ask({ q: event.currentTarget.value })}
          />
        </label>
        <Choice
          label="Configuration"
          value={configuration}
          choices={[['', 'all Configurations'], ...names.map((name) => [name, name] as const)]}
          onChoice={(value) => ask({ configuration: value })}
        />
        <Choice
          label="State"
          value={state}
          choices={Object.entries(STATES)}
          onChoice={(value) => ask({ state: value })}
        />
        <Choice
          label="Order"
          value={sort}
          choices={Object.entries(SORTS)}
          onChoice={(value) => ask({ sort: value })}
        />
      </search>
      {found.length === 0 ? (
        <NoDevices isSearched={devices.size > 0} configuration={configuration} />
      ) : (
        <VirtualGrid {...CARD} items={found} label="Devices" keyOf={({ object }) => nameOf(object)}>
          {(device) => (
            <DeviceCard
              device={device}
              handler={
                configurations.get(configurationOf(device))?.object.spec.discoveryHandler.name
              }
            />
          )}
        </VirtualGrid>
      )}
    </>
  )
}

/** No devices come with their reasons. */
function NoDevices(props: { readonly isSearched: boolean; readonly configuration: string }) {
  const { isSearched, configuration } = props
  const all = [...items.value.configurations.values()]
  const asked = all.filter(({ object }) => configuration === '' || nameOf(object) === configuration)
  const empty = asked.filter(({ object }) => (object.status?.devices ?? 0) === 0)
  if (isSearched && (configuration === '' || empty.length === 0))
    return (
      <div class="empty">
        <p>No device matches.</p>
        <p>
          <a href="/devices">Show all devices</a>
        </p>
      </div>
    )
  const { unread } = items.value.outages
  if (unread.includes('device') || (all.length === 0 && unread.includes('configuration')))
    return (
      <div class="empty">
        <p>{NOT_READ}</p>
      </div>
    )
  if (all.length === 0)
    return (
      <div class="empty">
        <p>There are no Configurations, so nothing is looked for.</p>
      </div>
    )
  return (
    <div class="empty">
      <p>No devices yet. This is why:</p>
      <dl class="reasons">
        {empty.map((each) => (
          <div key={nameOf(each.object)}>
            <dt>
              <bdi>{each.object.metadata.name}</bdi>
            </dt>
            <dd>
              <bdi>{configurationState(each).text}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  )
}

/** A slash moves to the search, as on other pages with a search. */
function focusBySlash(search: { readonly current: HTMLInputElement | null }): () => void {
  const onKey = (event: KeyboardEvent) => {
    const isWriting = event.target instanceof Element && event.target.matches('input, select')
    if (event.key !== '/' || isWriting || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    search.current?.focus()
  }
  document.addEventListener('keydown', onKey)
  return () => document.removeEventListener('keydown', onKey)
}
