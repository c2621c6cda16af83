import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Waits until the output of a program matches. @throws TypeError if the program ends before */
export async function untilPrinted(child: ChildProcess, ready: RegExp): Promise<void> {
  let printed = ''
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (data) => {
        printed += data
        if (ready.test(printed)) resolve()
      })
    child.once('error', reject)
    child.once('exit', (code) =>
      reject(new TypeError(`${child.spawnfile} has ended with ${code}: ${printed}`)),
    )
  })
}

/** Ends a program, and waits until it has ended. */
export async function endProcess(
  child: ChildProcess | undefined,
  signal: NodeJS.Signals = 'SIGKILL',
): Promise<void> {
  if (child?.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}
