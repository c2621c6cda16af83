import { useMemo, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { items } from '../feed.js'
import {
  type DeviceMap,
  deviceMap,
  edgesOf,
  MAP_COLUMNS,
  type MapItem,
  relatedTo,
} from '../model/device-map.js'
import { counted, nameOf } from '../model/shown.js'
import { Choice } from '../parts/choice.js'

/** The height of a row, in rem, as in `page.css`. */
const ROW_REM = 3.25
/** The part of a column that is the room for lines. */
const GAP = 0.22

/** The way of each device from its handler to what uses it. */
export function MapPage() {
  const { query, route } = useLocation()
  const { configuration = '' }: { readonly configuration?: string } = query
  const all = items.value
  const map = useMemo(() => deviceMap(all, configuration), [all, configuration])
  const names = [...all.configurations.values()].map(({ object }) => nameOf(object)).sort()
  return (
    <>
      <div class="title-line">
        <h1>Map</h1>
        <p class="quiet" role="status">
          {counted(all.devices.size, 'device')}
        </p>
      </div>
      <search class="tools">
        <Choice
          label="Configuration"
          value={configuration}
          choices={[['', 'all Configurations'], ...names.map((name) => [name, name] as const)]}
          onChoice={(value) =>
            route(value === '' ? '/map' : `/map?${new URLSearchParams({ configuration: value })}`)
          }
        />
      </search>
      {map.leftOut > 0 && (
        <p class="calm map-note">
          The map has no room for {counted(map.leftOut, 'more Configuration')}: choose one to see
          its devices.
        </p>
      )}
      {map.items.length === 0 ? (
        <div class="empty">
          <p>There are no Configurations, so nothing is looked for.</p>
        </div>
      ) : (
        <Columns map={map} />
      )}
    </>
  )
}

/**
 * The columns. Each box has its relations in words: for people who do not see the lines, and on a
 * narrow screen, which has no lines.
 */
function Columns({ map }: { readonly map: DeviceMap }) {
  const [lit, setLit] = useState<string>()
  const follow = ({ target }: { readonly target: EventTarget | null }) =>
    setLit(target instanceof Element ? idOf(target) : undefined)
  const related = lit === undefined ? undefined : relatedTo(map.paths, lit)
  return (
    <div
      class="map"
      style={{ '--rows': map.rows }}
      onFocusIn={follow}
      onFocusOut={() => setLit(undefined)}
      onPointerOver={follow}
      onPointerLeave={() => setLit(undefined)}
    >
      <Lines map={map} lit={lit} />
      {MAP_COLUMNS.map((title, column) => (
        <section class="map-column" key={title} aria-labelledby={`map-${column}`}>
          <h2 id={`map-${column}`}>{title}</h2>
          <ul>
            {map.items
              .filter((item) => item.column === column)
              .map((item) => (
                <Box key={item.id} item={item} state={stateOf(item.id, related)} />
              ))}
          </ul>
        </section>
      ))}
    </div>
  )
}

function idOf(element: Element): string | undefined {
  return element.closest('[data-map]')?.getAttribute('data-map') ?? undefined
}

type BoxState = 'plain' | 'lit' | 'dim'

function stateOf(id: string, related: ReadonlySet<string> | undefined): BoxState {
  if (related === undefined) return 'plain'
  return related.has(id) ? 'lit' : 'dim'
}

function Box({ item, state }: { readonly item: MapItem; readonly state: BoxState }) {
  const { id, row, title, relation, href, health } = item
  return (
    <li class="map-place" style={{ top: `${row * ROW_REM}rem` }}>
      <a class={`map-box map-${state} map-${health}`} href={href} data-map={id} title={title}>
        <bdi class="map-title">{title}</bdi> <bdi class="map-relation">{relation}</bdi>
      </a>
    </li>
  )
}

/** The lines between the boxes; the boxes have the same in words. */
function Lines({ map, lit }: { readonly map: DeviceMap; readonly lit: string | undefined }) {
  const edges = useMemo(() => edgesOf(map, lit), [map, lit])
  const columns = MAP_COLUMNS.length
  return (
    <svg
      class="map-lines"
      aria-hidden="true"
      viewBox={`0 0 ${columns} ${map.rows}`}
      preserveAspectRatio="none"
    >
      {edges.map(({ from, to, isLit }) => {
        const [x, y] = [from.column + 1 - GAP, from.row + 0.5]
        const [end, last] = [to.column, to.row + 0.5]
        const half = (x + end) / 2
        return (
          <path
            key={`${from.id} ${to.id}`}
            class={isLit ? 'map-line map-line-lit' : 'map-line'}
            d={`M${x} ${y}C${half} ${y} ${half} ${last} ${end} ${last}`}
          />
        )
      })}
    </svg>
  )
}
