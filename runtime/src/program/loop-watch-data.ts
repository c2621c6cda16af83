/** What the thread of a {@link LoopWatch} gets. */
export interface LoopWatchData {
  /** Counted up by the event loop. */
  readonly beats: Int32Array
  readonly limitMs: number
  /** The name of the program. */
  readonly program: string
  /** Whether the log is for people. */
  readonly isText: boolean
  readonly remedy?: string
}
