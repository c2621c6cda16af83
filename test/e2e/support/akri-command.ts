import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { valueAt } from '@akrijs/runtime'
import { readLog } from './server-warnings.js'

const AKRI = path.join(import.meta.dirname, '../../../cli/dist/akri.js')
const run = promisify(execFile)

/** Runs the program `akri`. @throws with its output if it fails */
export async function akri(
  ...args: readonly string[]
): Promise<{ stdout: string; stderr: string }> {
  try {
    const output = await run(process.execPath, [AKRI, ...args], { encoding: 'utf8' })
    readLog(output.stderr)
    return output
  } catch (error) {
    readLog(String(valueAt(error, 'stderr')))
    throw error
  }
}
