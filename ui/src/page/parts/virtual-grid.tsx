import {
  observeWindowOffset,
  observeWindowRect,
  Virtualizer,
  windowScroll,
} from '@tanstack/virtual-core'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'

interface VirtualGridProps<Item> {
  readonly items: readonly Item[]
  readonly label: string
  /** The least width of a column, and the height of a row with its gap, in rem. */
  readonly columnRem: number
  readonly rowRem: number
  keyOf(item: Item): string
  /** Draws an item. */
  children(item: Item): ComponentChildren
}

/** Rows beyond the window that are there before a person reaches them. */
const OVERSCAN = 4

/** A grid of any number of items, of which only those near the window are in the document. */
export function VirtualGrid<Item>(props: VirtualGridProps<Item>) {
  const { items, label, columnRem, rowRem, keyOf, children } = props
  const list = useRef<HTMLUListElement>(null)
  const [, redraw] = useReducer((count: number) => count + 1, 0)
  const { columns, rem, top } = useGridSize(list, columnRem)
  const virtualizer = useRef<Virtualizer<Window, HTMLLIElement>>(undefined)
  const options = {
    count: Math.ceil(items.length / columns),
    getScrollElement: () => window,
    estimateSize: () => rowRem * rem,
    overscan: OVERSCAN,
    scrollMargin: top,
    initialRect: { width: window.innerWidth, height: window.innerHeight },
    initialOffset: () => window.scrollY,
    observeElementRect: observeWindowRect,
    observeElementOffset: observeWindowOffset,
    scrollToFn: windowScroll,
    onChange: () => redraw(undefined),
  }
  virtualizer.current ??= new Virtualizer<Window, HTMLLIElement>(options)
  const rows = virtualizer.current
  rows.setOptions(options)
  // The virtualizer keeps the size of each row that it has seen.
  useLayoutEffect(() => rows.measure(), [rem, columns])
  useEffect(() => rows._didMount(), [rows])
  useLayoutEffect(() => rows._willUpdate())
  const shown = rows
    .getVirtualItems()
    .flatMap(({ index, start }) =>
      items
        .slice(index * columns, (index + 1) * columns)
        .map((item, column) => ({ item, column, start, position: index * columns + column })),
    )
  return (
    <ul ref={list} class="grid" aria-label={label} style={{ height: `${rows.getTotalSize()}px` }}>
      {shown.map(({ item, column, start, position }) => (
        <li
          class="grid-item"
          key={keyOf(item)}
          aria-setsize={items.length}
          aria-posinset={position + 1}
          style={{
            height: `${rowRem * rem}px`,
            width: `${100 / columns}%`,
            left: `${(100 / columns) * column}%`,
            transform: `translateY(${start - top}px)`,
          }}
        >
          {children(item)}
        </li>
      ))}
    </ul>
  )
}

/** The number of columns, the size of a rem and the place of the grid, in pixels. */
function useGridSize(list: { readonly current: HTMLElement | null }, columnRem: number) {
  const [size, setSize] = useState({ columns: 1, rem: 16, top: 0 })
  useLayoutEffect(() => {
    const measure = () => {
      const element = list.current
      if (element === null) return
      const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize)
      const { width, top } = element.getBoundingClientRect()
      const columns = Math.max(1, Math.floor(width / (columnRem * rem)))
      const next = { columns, rem, top: Math.round(top + window.scrollY) }
      setSize((before) =>
        before.columns === columns && before.rem === rem && before.top === next.top ? before : next,
      )
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    return () => observer.disconnect()
  }, [list, columnRem])
  return size
}
