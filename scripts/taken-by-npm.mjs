// `npm start --plain`: without `--` before it, an option goes to npm, which puts it into the
// environment of the script.

/** Options of `akri run`. npm has an option --color itself. */
export const OPTIONS = [
  'file',
  'handler',
  'isolated',
  'handler-variables',
  'node',
  'state-dir',
  'log-level',
  'log-format',
  'ui',
  'no-ui',
  'plain',
  'write',
]

/**
 * @param {Readonly<Record<string, string | undefined>>} environment
 * @param {readonly string[]} args that npm has passed on
 * @returns {string[] | undefined} the whole command line, if npm took options; undefined if not
 */
export function takenByNpm(environment, args) {
  if (environment.npm_lifecycle_event !== 'start') return undefined
  const taken = OPTIONS.flatMap((name) => {
    // npm reads --no-ui as an empty ui.
    if (name === 'no-ui') return environment.npm_config_ui === '' ? ['--no-ui'] : []
    const value = environment[`npm_config_${name.replaceAll('-', '_')}`]
    if (!value) return []
    // npm puts an empty line between the values of an option that is repeated.
    const values = value.split('\n\n')
    return values.flatMap((text) => (text === 'true' ? [`--${name}`] : [`--${name}`, text]))
  })
  // npm reads -f as --force, and passes on the file.
  const hasFile = environment.npm_config_force === 'true' && /^[^-]/.test(args[0] ?? '')
  const all = [...taken, ...(hasFile ? ['-f'] : [])]
  return all.length === 0 ? undefined : [...all, ...args]
}
