// Plain JavaScript, which imports nothing of ours: scripts/start.mjs uses this file before anything
// is built.
import os from 'node:os'
import path from 'node:path'

/**
 * The state directory: AKRI_STATE_DIRECTORY, /var/lib/akri-standalone for root, else by XDG. Empty
 * if the user has no home directory.
 */
export function defaultStateDirectory(
  environment = process.env,
  { user, home } = { user: process.getuid?.(), home: homeDirectory() },
) {
  if (environment.AKRI_STATE_DIRECTORY) return path.resolve(environment.AKRI_STATE_DIRECTORY)
  if (user === 0) return '/var/lib/akri-standalone'
  const { XDG_STATE_HOME: state = '' } = environment
  // The specification of XDG ignores relative paths.
  if (path.isAbsolute(state)) return path.join(state, 'akri')
  return path.isAbsolute(home) ? path.join(home, '.local/state/akri') : ''
}

/** The same for these arguments of `akri run`. */
export function stateDirectory(args, environment = process.env) {
  const index = args.findLastIndex((arg) => arg === '--state-dir' || arg.startsWith('--state-dir='))
  const value = args[index]?.includes('=') ? args[index].replace(/^[^=]*=/, '') : args[index + 1]
  return index >= 0 && value ? path.resolve(value) : defaultStateDirectory(environment)
}

/** Empty for a user with neither HOME nor an entry in /etc/passwd, as in a container. */
function homeDirectory() {
  try {
    return os.homedir()
  } catch {
    return ''
  }
}
