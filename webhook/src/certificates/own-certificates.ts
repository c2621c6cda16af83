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
import { at } from '../json.js'
import type { WebhookRegistration } from '../webhook-registration.js'
import type { KeyPair } from '../webhook-server.js'
import { type Certificates, planCertificates } from './certificate-plan.js'
import { bundleOf, readSecret, secretWith } from './stored-certificates.js'

/** Timers cannot wait for longer than 24 days. */
const MAX_WAIT_MS = 12 * 60 * 60_000
/** Another replica was faster: what it wrote is on its way to us. */
const CONFLICT_MS = 1000

export interface OwnCertificatesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly namespace: string
  /** The Secret that all replicas share. */
  readonly secret: string
  /** What the certificate must be good for: DNS names and IP addresses. */
  readonly names: readonly [string, ...string[]]
  /** Where the authorities are made known. */
  readonly registration: WebhookRegistration | undefined
  onRenewed(pair: KeyPair): void
}

interface StoredSecret extends ApiObject {
  readonly object: object
}

/**
 * An authority and a certificate of our own, in a Secret that all replicas share. Whichever replica sees first that something is
 * due does it; the version of the Secret decides where two see it. Nothing is written, or asked, while nothing is due.
 */
export class OwnCertificates {
  readonly #options: OwnCertificatesOptions
  readonly #secrets: Resource
  readonly #reflector: Reflector<StoredSecret>
  readonly #queue: ReconcileQueue<'certificates'>
  /** What was in force last: should the Secret be lost, replicas go over to a new one without a gap. */
  #last: Certificates | undefined

  constructor(options: OwnCertificatesOptions) {
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
        log.warn({ err: error, retryInMs }, 'the Secret of certificates cannot be watched'),
    })
    this.#queue = new ReconcileQueue({
      clock,
      reconcile: () => this.#reconcile(),
      onError: (_key, error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'certificates cannot be kept up'),
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

  /** One step towards what is to be in force: what is written comes back by the watch, and then comes the next. */
  async #reconcile(): Promise<ReconcileResult> {
    const { clock, names, namespace, secret, log, registration } = this.#options
    const key = objectKey(namespace, secret)
    const found = this.#reflector.get(key)
    const stored = readSecret(found?.object)
    // Who makes it known where there is no registration of ours is not known; most likely nobody has to.
    const announcedAt = (authority: string) =>
      registration === undefined ? 0 : registration.announcedAt(authority)
    const { certificates, nextAt } = planCertificates(completed(stored, this.#last), {
      now: clock.wallMs(),
      names,
      announcedAt,
    })
    if (!isSame(stored, certificates)) {
      const object = secretWith(
        certificates,
        found?.object ?? { metadata: { name: secret, namespace } },
      )
      try {
        this.#reflector.observe(
          found === undefined
            ? await this.#secrets.create(namespace, object)
            : await this.#secrets.replace(key, object),
        )
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
    if (this.#last?.server.cert !== certificates.server.cert)
      this.#options.onRenewed(certificates.server)
    this.#last = certificates
    return { requeueAfterMs: Math.min(Math.max(nextAt - clock.wallMs(), 0), MAX_WAIT_MS) }
  }
}

/** What is missing in a Secret is taken from what was in force, so that nobody is left with what is no longer trusted. */
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
  const [name, namespace, resourceVersion] = ['name', 'namespace', 'resourceVersion'].map((field) =>
    at(object, 'metadata', field),
  )
  if (
    typeof name !== 'string' ||
    typeof namespace !== 'string' ||
    typeof resourceVersion !== 'string'
  )
    return undefined
  return { metadata: { name, namespace, resourceVersion }, object: Object(object) }
}
