import type { PressedKey } from './terminal-keys.js'

// What keys do to the live view. Pure.

/** An object that the list shows. */
export interface ListedObject {
  readonly kind: 'configuration' | 'instance'
  readonly name: string
}

export interface ScreenState {
  /**
   * `overview`: all that fits, without a selection. `list`: each Configuration and each Instance.
   * `details`: one of them. `log`: the last lines of the log and of brokers.
   */
  readonly screen: 'overview' | 'list' | 'details' | 'log'
  /** The selected row of the list; of details and log the first line that is shown. */
  readonly at: number
  /** The words that an object of the list has. */
  readonly filter: string
  /** Whether characters go to the filter. */
  readonly isTyping: boolean
  /** The object of the details. */
  readonly opened: ListedObject | undefined
  /** The selected row of the list behind details. */
  readonly behind: number
}

export const OVERVIEW: ScreenState = {
  screen: 'overview',
  at: 0,
  filter: '',
  isTyping: false,
  opened: undefined,
  behind: 0,
}

/** The longest filter, in characters. */
const MAX_FILTER = 100

interface Shown {
  /** The objects of the list, as the filter leaves them. */
  readonly objects: readonly ListedObject[]
  /** The number of lines of details or log. */
  readonly lines: number
  /** The number of rows that show them. */
  readonly page: number
}

/** @returns the next state; undefined if the key ends the program */
export function afterKey(
  state: ScreenState,
  { name, text }: PressedKey,
  shown: Shown,
): ScreenState | undefined {
  if (state.isTyping) return afterTyping(state, name, text)
  if (text === 'q' && state.screen !== 'details') return undefined
  if (text === 'l')
    return state.screen === 'log' ? OVERVIEW : { ...OVERVIEW, screen: 'log', at: LOG_END }
  if (text === '/') return { ...state, screen: 'list', at: 0, isTyping: true }
  if (name === 'escape' || name === 'left' || text === 'q') return back(state)
  const isOpening = name === 'return' || name === 'enter' || name === 'right'
  if (state.screen === 'overview') return isOpening || name in STEPS ? list(state) : state
  if (state.screen === 'list' && isOpening) return open(state, shown)
  const step = STEPS[name]
  if (step === undefined) return state
  const last = lastOf(state, shown)
  const at = Math.min(last, Math.max(0, Math.min(last, state.at) + step(shown)))
  // The end of the log stays in sight as lines come.
  return { ...state, at: state.screen === 'log' && at === last ? LOG_END : at }
}

const LOG_END = Number.POSITIVE_INFINITY

/** How far keys go. */
const STEPS: Readonly<Record<string, (shown: Shown) => number>> = {
  up: () => -1,
  k: () => -1,
  down: () => 1,
  j: () => 1,
  pageup: ({ page }) => -page,
  pagedown: ({ page }) => page,
  space: ({ page }) => page,
  home: () => Number.NEGATIVE_INFINITY,
  end: () => Number.POSITIVE_INFINITY,
}

function lastOf({ screen }: ScreenState, { objects, lines, page }: Shown): number {
  return Math.max(0, screen === 'list' ? objects.length - 1 : lines - page)
}

function list(state: ScreenState): ScreenState {
  return { ...state, screen: 'list', at: state.behind, opened: undefined }
}

function open(state: ScreenState, { objects }: Shown): ScreenState {
  const opened = objects[state.at]
  return opened === undefined
    ? state
    : { ...state, screen: 'details', at: 0, behind: state.at, opened }
}

function back(state: ScreenState): ScreenState {
  if (state.screen === 'details') return list(state)
  return state.screen === 'list' && state.filter !== '' ? { ...state, at: 0, filter: '' } : OVERVIEW
}

function afterTyping(state: ScreenState, name: string, text: string): ScreenState {
  if (name === 'return' || name === 'enter') return { ...state, isTyping: false }
  if (name === 'escape') return { ...state, at: 0, isTyping: false, filter: '' }
  const filter = name === 'backspace' ? state.filter.slice(0, -1) : state.filter + text
  return { ...state, at: 0, filter: filter.slice(0, MAX_FILTER) }
}
