import path from 'node:path'
import { type Logger, systemClock, untilAborted } from '@akrijs/runtime'
import { failureText } from '@akrijs/runtime/program'
import type { DiscoveryProcessRequest } from './discovery-messages.js'
import { DiscoveryProcess } from './discovery-process-run.js'
import { FirstListWait } from './first-list.js'
import { SourceFiles } from './source-files.js'

interface WatchOptions {
  /** The path of a module or of a package. */
  readonly handler: string
  /** Further files that matter. */
  readonly files: readonly string[]
  readonly signal: AbortSignal
  readonly log: Logger
  /** What the process of the handler gets; read again for each process. */
  request(): Promise<DiscoveryProcessRequest>
  onList(text: string): void
  onFailure(text: string): void
  /** Takes what happens to the handler, for a person. */
  onState(text: string): void
  /** Adds work for the case that the program ends at once. */
  onSuddenEnd(work: () => void): void
}

/**
 * Shows the lists of a handler, and starts the handler again when one of the author's files
 * changes. A failure is shown, and the next change tries again. Resolves when the signal is
 * aborted.
 */
export async function watchHandler(options: WatchOptions): Promise<void> {
  const { handler, log, signal, onList, onFailure, onState } = options
  const roots = [handler, path.join(handler, 'package.json'), ...options.files]
  let current: DiscoveryProcess | undefined
  options.onSuddenEnd(() => current?.kill())

  /** Runs the handler until it fails or is stopped. */
  const run = async (sources: SourceFiles, stop: AbortSignal) => {
    let failure: string | undefined
    const first = new FirstListWait({
      clock: systemClock,
      signal: stop,
      isEndless: true,
      note: onState,
    })
    try {
      const request = await options.request()
      current = new DiscoveryProcess(request, {
        onList: (text) => {
          first.end()
          if (!stop.aborted) onList(text)
        },
        onFile: (file) => sources.add(file),
      })
      failure = await untilAborted(current.ended, stop)
      await current.close()
    } catch (error) {
      failure = failureText('akri', error)
    } finally {
      first.end()
    }
    if (failure === undefined || stop.aborted) return
    onFailure(failure)
    onState(`waiting for a change of ${path.basename(handler)}, or of a file that it imports`)
  }

  let files: Iterable<string> = roots
  while (!signal.aborted) {
    const sources = new SourceFiles(files, log)
    const stop = new AbortController()
    const running = run(sources, stop.signal)
    const changed = await untilAborted(sources.changed, signal)
    stop.abort()
    await running
    sources.close()
    files = [...roots, ...sources.files]
    if (changed !== undefined)
      onState(`${path.basename(changed)} changed: the handler starts again`)
  }
}
