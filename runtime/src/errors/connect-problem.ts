/** What a failed connection to a socket or a port of another program means, and the next step. */
const PROBLEMS: Readonly<Record<string, string>> = {
  EACCES:
    'this process may not open the socket (EACCES): run it with the group of the socket, or as ' +
    'root; ls -l shows the group',
  EPERM: 'a security policy, such as SELinux or AppArmor, refuses the connection (EPERM)',
  ENOENT: 'there is no such socket (ENOENT): its program has ended, or has another directory',
  ECONNREFUSED: 'no process listens there (ECONNREFUSED): look at the log of its program',
  ECONNRESET: 'the other process closed the connection (ECONNRESET): look at its log',
  EHOSTUNREACH: 'there is no way to the address (EHOSTUNREACH): check network and network policies',
  ETIMEDOUT: 'the address does not answer (ETIMEDOUT): check network and network policies',
}
const CODES = new RegExp(`\\b(${Object.keys(PROBLEMS).join('|')})\\b`)

/**
 * The problem of a connection, in words for people. Libraries name its code somewhere in a text.
 * @param text the message of an error
 * @returns the text itself if it names no known code
 */
export function connectProblem(text: string): string {
  const [code = ''] = CODES.exec(text) ?? []
  return PROBLEMS[code] ?? text
}
