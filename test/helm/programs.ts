import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'

// Helm 3 merges on the client, Helm 4 applies on the server: releases are tested with both.

const run = promisify(execFile)

export const HELMS = ['helm3', 'helm4'] as const
export type Helm = (typeof HELMS)[number]

/** The reason why tests with this Helm cannot run; undefined if they can. */
export function missingHelm(helm: Helm): string | undefined {
  if (spawnSync(helm, ['version']).status === 0) return undefined
  return `needs Helm ${helm.slice(-1)} as ${helm}`
}

/** What client-go logs of itself: a watch that it opens again, for example. */
const OF_CLIENT_GO = /^[IWE]\d{4} .* reflector\.go:\d+\] /

/** @throws with Helm's output if it fails, or if it or the API server prints a warning */
export async function runHelm(helm: Helm, ...args: readonly string[]): Promise<void> {
  const { stdout, stderr } = await run(helm, args)
  const warnings = `${stdout}\n${stderr}`
    .split('\n')
    .filter((line) => /warn/i.test(line) && !OF_CLIENT_GO.test(line))
  if (warnings.length > 0) throw new Error(`${helm} ${args.join(' ')}: ${warnings.join('\n')}`)
}
