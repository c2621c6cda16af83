import { parseObjectMeta } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  objectKey,
  ReconcileQueue,
  type ReconcileResult,
  Reflector,
  Resource,
  SECRETS,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { MissingSecretError } from '../errors.js'
import type { WebhookRegistration } from '../webhook-registration.js'
import { type Certificates, planCertificates } from './certificate-plan.js'
import { bundleOf, readSecret, secretWith } from './stored-certificates.js'
import type { KeyPair } from './x509.js'

/** The longest wait of a timer, in milliseconds: timers fail beyond 24 days. */
const MAX_WAIT_MS = 12 * 60 * 60_000
/**
 * The wait after another replica has written first, in milliseconds: the watch will show that
 * write.
 */
const CONFLICT_MS = 1000

interface IssuedCertificatesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly namespace: string
  /** The Secret that all replicas share. */
  readonly secret: string
  /** The names of the certificate: DNS names and IP addresses. */
  readonly names: readonly [string, ...string[]]
  /** The registration that announces the authorities. */
  readonly registration: WebhookRegistration | undefined
  onRenewed(pair: KeyPair): void
}

interface StoredSecret extends ApiObject {
  readonly object: object
}

/**
 * Issues an authority and a certificate into a Secret that all replicas share. The first replica
 * that sees a due step does the step. The version of the Secret decides between two replicas. While
 * no step is due, nothing is requested. The installer creates the Secret: an account that may
 * create a Secret can create one that is a token of any account of the namespace.
 */
export class IssuedCertificates {
  readonly #options: IssuedCertificatesOptions
  readonly #secrets: Resource
  readonly #reflector: Reflector<StoredSecret>
  readonly #queue: ReconcileQueue<'certificates'>
  /**
   * The certificates that were in force last: after a loss of the Secret, the replicas go on
   * without a gap.
   */
  #last: Certificates | undefined
  /** When this replica first saw the served certificate of `#last`, by `monotonicMs`. */
  #servedSince = 0

  constructor(options: IssuedCertificatesOptions) {
    const { client, clock, log, namespace, secret } = options
    this.#options = options
    this.#secrets = new Resource(client, SECRETS)
    this.#reflector = new Reflector<StoredSecret>({
      client,
      clock,
      path: this.#secrets.path(namespace),
      query: { fieldSelector: `metadata.name=${secret}` },
      parse: storedSecret,
      onError: (error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'certificate Secret watch failed'),
    })
    this.#queue = new ReconcileQueue({
      clock,
      reconcile: () => this.#reconcile(),
      onError: (_key, error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'certificate renewal failed'),
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    const wake = () => this.#queue.add('certificates')
    void this.#reflector.synced.then(() => {
      if (signal.aborted) return
      this.#reflector.onChange(wake, signal)
      this.#options.registration?.onChange(wake, signal)
      wake()
    })
    await Promise.all([this.#reflector.run(signal), this.#queue.run(signal)])
  }

  /** Does one step of the plan. The watch shows the write, and starts the next step. */
  async #reconcile(): Promise<ReconcileResult> {
    const { clock, names, namespace, secret, log, registration } = this.#options
    const key = objectKey(namespace, secret)
    const found = this.#reflector.get(key)
    if (found === undefined) {
      // The watch shows a new Secret. Until then the certificates in force are served.
      const err = new MissingSecretError(
        `there is no Secret ${key}, and the webhook may create none: kubectl -n ` +
          `${namespace} create secret generic ${secret}`,
      )
      log.warn({ err }, 'certificate Secret not found')
      return {}
    }
    const stored = readSecret(found.object)
    // Without a registration of ours, the installer announces the authority: there is nothing to
    // wait for.
    const announcedForMs = (authority: string) =>
      registration === undefined ? Infinity : registration.announcedForMs(authority)
    const servedForMs = (cert: string) =>
      cert === this.#last?.server.cert ? clock.monotonicMs() - this.#servedSince : 0
    const { certificates, nextAt } = await planCertificates(completed(stored, this.#last), {
      now: clock.wallMs(),
      names,
      announcedForMs,
      servedForMs,
    })
    if (!isSame(stored, certificates)) {
      const object = secretWith(certificates, found.object)
      try {
        this.#reflector.observe(await this.#secrets.replace(key, object))
        log.info(
          { secret: key, authorities: certificates.authorities.length },
          'certificates renewed',
        )
      } catch (error) {
        if (ApiError.is(error, 409)) return { requeueAfterMs: CONFLICT_MS }
        throw error
      }
    }
    registration?.announce(bundleOf(certificates.authorities))
    if (this.#last?.server.cert !== certificates.server.cert) {
      this.#servedSince = clock.monotonicMs()
      this.#options.onRenewed(certificates.server)
    }
    this.#last = certificates
    return { requeueAfterMs: Math.min(Math.max(nextAt - clock.wallMs(), 0), MAX_WAIT_MS) }
  }
}

/**
 * Fills missing parts of a Secret from the certificates in force, so that no replica serves an
 * untrusted certificate.
 */
function completed(
  stored: Partial<Certificates>,
  last: Certificates | undefined,
): Partial<Certificates> {
  if (last === undefined || (stored.authorities !== undefined && stored.server !== undefined))
    return stored
  const authorities = [...new Set([...(stored.authorities ?? []), ...last.authorities])]
  return { ...stored, authorities, server: stored.server ?? last.server }
}

function isSame(
  stored: Partial<Certificates>,
  { authorities, authorityKey, server }: Certificates,
): boolean {
  return (
    bundleOf(stored.authorities ?? []) === bundleOf(authorities) &&
    stored.authorityKey === authorityKey &&
    stored.server?.cert === server.cert &&
    stored.server.key === server.key
  )
}

function storedSecret(object: unknown): StoredSecret | undefined {
  const metadata = parseObjectMeta(object)
  return metadata && { metadata, object: Object(object) }
}
