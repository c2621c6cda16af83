import { valueAt } from './json.js'

/** What stands for a secret in the output of a program. */
export const MASK = '***'

const SECRET = new RegExp(
  'pass(word|wd|phrase|code)|secret(?!ar)|token(?!i[sz])|credential(s$|[-_]?list)|' +
    '(api|private|access)[-_]?key',
  'i',
)
/**
 * The last words of names that tell where a secret is, or what it is like, and hold none:
 * `password_ref`, `secretName`, `TOKEN_FILE`, `tokenTypes`, `PASSWORD_POLICY`.
 */
const ABOUT_SECRETS = new Set(
  (
    'ref refs name names namespace namespaces file files path paths dir dirs url urls uri uris ' +
    'type types kind kinds count length size limit policy policies format expiry ttl lifetime ' +
    'timeout status required enabled supported'
  ).split(' '),
)
/** What OPC UA and ONVIF call tokens: the kinds of users, and the identifier of a media profile. */
const OTHER_TOKENS = /^(OPCUA_USER_TOKENS|ONVIF_DEVICE_PROFILE_\d+_TOKEN)$/
/** `password_<device>`: the name of the device can end as a reference does. */
const PASSWORD_OF_DEVICE = /^password_(?!refs?$|file$)/
/** `rtsp://user:password@camera`. */
const URL_PASSWORD = /(:\/\/[^\s/:@]*:)[^\s/]+(?=@)/g

/**
 * Whether a property, a field or a variable of this name holds a secret, such as
 * `password_default`. Programs never show its value.
 */
export function isSecretName(name: string): boolean {
  if (PASSWORD_OF_DEVICE.test(name)) return true
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1_$2').split(/[_.-]/)
  const isAbout = ABOUT_SECRETS.has(words.at(-1)?.toLowerCase() ?? '')
  return SECRET.test(name) && !isAbout && !OTHER_TOKENS.test(name)
}

/**
 * Whether the value at a path is a secret: by a name in the path, or by the name beside a `value`,
 * as in `{ name: password_default, value: … }`.
 */
export function isSecretAt(root: unknown, path: readonly PropertyKey[]): boolean {
  if (path.some((key) => typeof key === 'string' && isSecretName(key))) return true
  const name = path.at(-1) === 'value' ? valueAt(root, ...path.slice(0, -1), 'name') : undefined
  return typeof name === 'string' && isSecretName(name)
}

/** Whether a text has a word that can be the name of a secret. */
export function mentionsSecret(text: string): boolean {
  return /credentials/i.test(text) || SECRET.test(text)
}

/** The text without the passwords of its URLs. */
export function maskUrls(text: string): string {
  return text.replace(URL_PASSWORD, `$1${MASK}`)
}
