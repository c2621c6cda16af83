import { valueAt } from './json.js'

/** What stands for a secret in the output of a program. */
export const MASK = '***'

const SECRET =
  /pass(word|wd|phrase|code)|secret|token|credential(s$|[-_]?list)|(api|private|access)[-_]?key/i
/** Such a name holds a name or a place of a secret: `password_ref`, `secretName`, `TOKEN_FILE`. */
const REFERENCE = /[_.-](refs?|name|namespace|file|path|dir|url|uri|type|kind)$/i
const REFERENCE_IN_CAMEL_CASE =
  /[a-z\d](Refs?|Name|Namespace|File|Path|Dir|Url|URL|Uri|URI|Type|Kind)$/
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
  return SECRET.test(name) && !REFERENCE.test(name) && !REFERENCE_IN_CAMEL_CASE.test(name)
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
