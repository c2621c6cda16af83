import { systemClock } from '@akrijs/runtime'

/**
 * Runs the function, and resolves with the warnings of Node.js about signals and emitters with many
 * listeners: each can be a leak.
 */
export async function listenerWarnings(run: () => Promise<void>): Promise<string[]> {
  const warnings: string[] = []
  const note = ({ name, stack }: Error) => {
    if (name === 'MaxListenersExceededWarning') warnings.push(stack ?? name)
  }
  process.on('warning', note)
  try {
    await run()
    // Node.js emits a warning in the next tick.
    await systemClock.sleep(0)
  } finally {
    process.off('warning', note)
  }
  return warnings
}
