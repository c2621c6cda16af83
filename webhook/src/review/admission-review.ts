import type { Problem } from '@akrijs/api'
import { at } from '../json.js'

/** What an API server asks: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/ */
export interface AdmissionRequest {
  readonly apiVersion: ApiVersion
  readonly uid: string
  /** `CREATE`, `UPDATE`, `DELETE`, `CONNECT`; as it was sent. */
  readonly operation: string
  readonly namespace: string | undefined
  readonly object: unknown
  readonly oldObject: unknown
}

/** What the webhook thinks of it. */
export type Verdict =
  | { readonly outcome: 'allowed'; readonly warnings: readonly string[] }
  | {
      readonly outcome: 'denied'
      readonly problems: readonly Problem[]
      readonly warnings: readonly string[]
    }
  /** It cannot be said at present, and so it is denied. */
  | { readonly outcome: 'undecided'; readonly reasons: readonly string[] }

const API_VERSIONS = ['admission.k8s.io/v1', 'admission.k8s.io/v1beta1'] as const
type ApiVersion = (typeof API_VERSIONS)[number]

/** What is shown of many problems, and of long ones: it all goes to a terminal, and into the audit log. */
const MAX_SHOWN = 20
const MAX_PATH = 300
const MAX_MESSAGE = 1000
/** API servers cut what is longer. */
const MAX_WARNING = 256

/** @returns the request, or what is wrong with the review */
export function readAdmissionReview(body: unknown): AdmissionRequest | string {
  const given = at(body, 'apiVersion')
  const apiVersion =
    given === undefined ? API_VERSIONS[0] : API_VERSIONS.find((known) => known === given)
  if (at(body, 'kind') !== 'AdmissionReview' || apiVersion === undefined)
    return `send an AdmissionReview of ${API_VERSIONS.join(' or ')}`
  const request = at(body, 'request')
  if (typeof request !== 'object' || request === null) return 'the AdmissionReview has no request'
  const uid = at(request, 'uid')
  if (typeof uid !== 'string') return 'the request of the AdmissionReview has no uid'
  const [operation, namespace] = [at(request, 'operation'), at(request, 'namespace')]
  return {
    apiVersion,
    uid,
    operation: typeof operation === 'string' ? operation : '',
    namespace: typeof namespace === 'string' ? namespace : undefined,
    object: at(request, 'object') ?? undefined,
    oldObject: at(request, 'oldObject') ?? undefined,
  }
}

/** The AdmissionReview that goes back. */
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
  const told = warnings.length === 0 ? {} : { warnings }
  if (verdict.outcome === 'allowed') return review({ allowed: true, ...told })
  if (verdict.outcome === 'undecided') {
    const message = shown(verdict.reasons.join('; '), MAX_MESSAGE)
    return review({
      allowed: false,
      status: { status: 'Failure', code: 503, reason: 'ServiceUnavailable', message },
    })
  }
  const causes = verdict.problems.slice(0, MAX_SHOWN).map(({ path, message }) => ({
    reason: 'FieldValueInvalid',
    field: shown(path, MAX_PATH),
    message: shown(message, MAX_MESSAGE),
  }))
  const left = verdict.problems.length - causes.length
  const lines = [
    ...causes.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)),
    ...(left === 0 ? [] : [`and ${left} more`]),
  ]
  const name = at(object, 'metadata', 'name')
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
  return review({ allowed: false, status, ...told })
}

function shown(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text
}
