import type { Problem } from '@akrijs/api'
import { valueAt } from '@akrijs/runtime'

/**
 * The request of an API server:
 * https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
 */
export interface AdmissionRequest {
  readonly apiVersion: ApiVersion
  readonly uid: string
  /** `CREATE`, `UPDATE`, `DELETE` or `CONNECT`, as the client sent it. */
  readonly operation: string
  readonly namespace: string | undefined
  readonly object: unknown
  readonly oldObject: unknown
}

/** The result of a review. */
export type Verdict =
  | { readonly outcome: 'allowed'; readonly warnings: readonly string[] }
  | {
      readonly outcome: 'denied'
      readonly problems: readonly Problem[]
      readonly warnings: readonly string[]
    }
  /** A check could not be done, and so the request is denied. */
  | { readonly outcome: 'undecided'; readonly reasons: readonly string[] }

const API_VERSIONS = ['admission.k8s.io/v1', 'admission.k8s.io/v1beta1'] as const
type ApiVersion = (typeof API_VERSIONS)[number]

/** The longest `uid`: API servers send 36 characters. The answer repeats it. */
const MAX_UID = 128
/** The most problems and characters in an answer, which goes to a terminal and to the audit log. */
const MAX_SHOWN = 20
const MAX_CHARACTERS = 10_000
const MAX_PATH = 300
const MAX_MESSAGE = 1000
/** The longest warning: API servers cut longer warnings. */
const MAX_WARNING = 256

/** @returns the request, or a text that says what is wrong with the AdmissionReview */
export function readAdmissionReview(body: unknown): AdmissionRequest | string {
  const version = valueAt(body, 'apiVersion')
  const apiVersion =
    version === undefined
      ? API_VERSIONS[0]
      : API_VERSIONS.find((candidate) => candidate === version)
  if (valueAt(body, 'kind') !== 'AdmissionReview' || apiVersion === undefined)
    return `send an AdmissionReview of ${API_VERSIONS.join(' or ')}`
  const request = valueAt(body, 'request')
  if (typeof request !== 'object' || request === null) return 'the AdmissionReview has no request'
  const uid = valueAt(request, 'uid')
  if (typeof uid !== 'string') return 'the request of the AdmissionReview has no uid'
  if (uid.length > MAX_UID) return `the uid of the request has more than ${MAX_UID} characters`
  const [operation, namespace] = [valueAt(request, 'operation'), valueAt(request, 'namespace')]
  return {
    apiVersion,
    uid,
    operation: typeof operation === 'string' ? operation : '',
    namespace: typeof namespace === 'string' ? namespace : undefined,
    object: valueAt(request, 'object') ?? undefined,
    oldObject: valueAt(request, 'oldObject') ?? undefined,
  }
}

/** The AdmissionReview of the answer. */
export function admissionReview(
  { apiVersion, uid, object }: AdmissionRequest,
  verdict: Verdict,
): object {
  const review = (response: object) => ({
    apiVersion,
    kind: 'AdmissionReview',
    response: { uid, ...response },
  })
  const warnings =
    'warnings' in verdict ? verdict.warnings.map((text) => shown(text, MAX_WARNING)) : []
  const shownWarnings = warnings.length === 0 ? {} : { warnings }
  if (verdict.outcome === 'allowed') return review({ allowed: true, ...shownWarnings })
  if (verdict.outcome === 'undecided') {
    const message = shown(verdict.reasons.join('; '), MAX_MESSAGE)
    return review({
      allowed: false,
      status: { status: 'Failure', code: 503, reason: 'ServiceUnavailable', message },
    })
  }
  const causes: { reason: string; field: string; message: string }[] = []
  let characters = 0
  for (const problem of verdict.problems.slice(0, MAX_SHOWN)) {
    const field = shown(problem.path, MAX_PATH)
    const message = shown(problem.message, MAX_MESSAGE)
    characters += field.length + message.length
    if (characters > MAX_CHARACTERS) break
    causes.push({ reason: 'FieldValueInvalid', field, message })
  }
  const left = verdict.problems.length - causes.length
  const lines = [
    ...causes.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)),
    ...(left === 0 ? [] : [`and ${left} more`]),
  ]
  const name = valueAt(object, 'metadata', 'name')
  const status = {
    status: 'Failure',
    code: 422,
    reason: 'Invalid',
    message: lines.length === 1 ? lines[0] : lines.map((line) => `\n* ${line}`).join(''),
    // kubectl shows the causes rather than the message.
    details: {
      group: 'akri.sh',
      kind: 'Configuration',
      name: typeof name === 'string' ? shown(name, MAX_PATH) : '',
      causes,
    },
  }
  return review({ allowed: false, status, ...shownWarnings })
}

function shown(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text
}
