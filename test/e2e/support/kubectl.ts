import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export function hasKubectl(): boolean {
  return (process.env.PATH ?? '')
    .split(':')
    .some((directory) => existsSync(path.join(directory, 'kubectl')))
}

/** @throws with the output of kubectl if it fails */
export function kubectl(...args: readonly string[]): Promise<string> {
  return kubectlWith('', ...args)
}

/** @param input the standard input */
export async function kubectlWith(input: string, ...args: readonly string[]): Promise<string> {
  return (await kubectlOutput(input, ...args)).stdout
}

/** @param input the standard input */
export async function kubectlOutput(
  input: string,
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const running = run('kubectl', args, { maxBuffer: 64 * 1024 * 1024 })
  // If kubectl ends before it has read its input, its output says why.
  running.child.stdin?.on('error', () => undefined)
  running.child.stdin?.end(input)
  return running
}
