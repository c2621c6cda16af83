type Environment = Readonly<Record<string, string | undefined>>

/** Variables of the agent that a handler in a process of its own gets. None of them is a secret. */
const PASSED_ON = [
  // For programs that a handler starts, and for texts and times.
  'PATH',
  'TMPDIR',
  'LANG',
  'LC_ALL',
  'TZ',
  // For Node.js: the memory limit of the container, and the authorities of certificates.
  'NODE_ENV',
  'NODE_OPTIONS',
  'NODE_EXTRA_CA_CERTS',
  // For akri-handler, and for the handler debugEcho.
  'LOG_LEVEL',
  'DEBUG_ECHO_AVAILABILITY_FILE',
  'DEBUG_ECHO_INSTANCES_SHARED',
]

/** Variables that would make the handler serve on the network, or on the port of the agent. */
const WITHHELD = ['POD_IP', 'METRICS_PORT']

/**
 * The environment of a handler in a process of its own. The environment of the agent can hold
 * credentials of the Pod or of the user, which are no concern of a handler.
 * @param names further variables, which the operator names
 */
export function handlerEnvironment(
  agent: Environment,
  directory: string,
  names: readonly string[],
): Record<string, string> {
  const passedOn = [...PASSED_ON, ...names].flatMap((name): [string, string][] => {
    const value = agent[name]
    return value === undefined || WITHHELD.includes(name) ? [] : [[name, value]]
  })
  return { ...Object.fromEntries(passedOn), DISCOVERY_HANDLERS_DIRECTORY: directory }
}
