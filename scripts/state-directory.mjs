import os from 'node:os'
import path from 'node:path'

/**
 * The state directory of `akri run`, as cli/src/places.ts has it.
 * @param {readonly string[]} args of `akri run`
 * @returns {string} empty for a user without a home directory
 */
export function stateDirectory(args, environment = process.env) {
  const index = args.findLastIndex((arg) => arg === '--state-dir' || arg.startsWith('--state-dir='))
  const value = args[index]?.includes('=') ? args[index].replace(/^[^=]*=/, '') : args[index + 1]
  if (index >= 0 && value) return path.resolve(value)
  if (environment.AKRI_STATE_DIRECTORY) return path.resolve(environment.AKRI_STATE_DIRECTORY)
  if (process.getuid?.() === 0) return '/var/lib/akri-standalone'
  const { XDG_STATE_HOME: state = '' } = environment
  // The specification of XDG ignores relative paths.
  if (path.isAbsolute(state)) return path.join(state, 'akri')
  const home = homeDirectory()
  return path.isAbsolute(home) ? path.join(home, '.local/state/akri') : ''
}

function homeDirectory() {
  try {
    return os.homedir()
  } catch {
    return ''
  }
}
