import { parseObjectMeta } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  type JsonPatch,
  objectKey,
  pointer,
  ReconcileQueue,
  Reflector,
  Resource,
} from '@akrijs/kube'
import { type Clock, type Logger, valueAt } from '@akrijs/runtime'
import type { FailurePolicy } from './review/reviewer.js'

const KIND = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
}

interface WebhookRegistrationOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** The name of the ValidatingWebhookConfiguration. All webhooks in it are ours. */
  readonly name: string
  /** What API servers do if no replica answers. */
  readonly failurePolicy: FailurePolicy
}

interface Registration extends ApiObject {
  readonly webhooks: readonly unknown[]
}

/**
 * Writes two fields of the ValidatingWebhookConfiguration that only the webhook knows: the
 * authorities of its certificates, and the failure policy. All other fields belong to the
 * installer.
 */
export class WebhookRegistration {
  readonly #options: WebhookRegistrationOptions
  readonly #resource: Resource
  readonly #reflector: Reflector<Registration>
  readonly #queue: ReconcileQueue<'registration'>
  readonly #announced = new Map<string, number>()
  #bundle: string | undefined

  constructor(options: WebhookRegistrationOptions) {
    const { client, clock, log, name } = options
    this.#options = options
    this.#resource = new Resource(client, KIND)
    this.#reflector = new Reflector<Registration>({
      client,
      clock,
      path: this.#resource.path(),
      query: { fieldSelector: `metadata.name=${name}` },
      parse: parseRegistration,
      onError: (error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'registration watch failed'),
    })
    this.#queue = new ReconcileQueue({
      clock,
      reconcile: async () => {
        await this.#reconcile()
        return {}
      },
      onError: (_key, error, retryInMs) =>
        log.warn({ err: error, retryInMs }, 'registration write failed'),
    })
  }

  /** @param bundle the authorities that API servers should trust, PEM */
  announce(bundle: string): void {
    if (this.#bundle === bundle) return
    this.#bundle = bundle
    this.#queue.add('registration')
  }

  /**
   * The time from which this replica saw the authority in all webhooks of the registration, in
   * milliseconds since the epoch; undefined if it is missing there.
   */
  announcedAt(authority: string): number | undefined {
    const webhooks = this.#registered?.webhooks ?? []
    if (!webhooks.every((webhook) => bundleIn(webhook)?.includes(authority) === true)) {
      this.#announced.delete(authority)
      return undefined
    }
    const since = this.#announced.get(authority) ?? this.#options.clock.wallMs()
    this.#announced.set(authority, since)
    return since
  }

  /** Calls back after each change of the registration. */
  onChange(listener: () => void, signal: AbortSignal): void {
    this.#reflector.onChange(listener, signal)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { log, name } = this.#options
    this.#reflector.onChange(() => this.#queue.add('registration'), signal)
    void this.#reflector.synced.then(() => {
      if (this.#registered === undefined)
        log.warn({ name }, 'ValidatingWebhookConfiguration not found')
    })
    await Promise.all([this.#reflector.run(signal), this.#queue.run(signal)])
  }

  get #registered(): Registration | undefined {
    return this.#reflector.get(objectKey('', this.#options.name))
  }

  /** Writes the fields that differ. */
  async #reconcile(): Promise<void> {
    const { name, log, failurePolicy } = this.#options
    const found = this.#registered
    if (found === undefined) return
    const patch = registrationPatch(found.webhooks, failurePolicy, this.#bundle)
    if (patch.length === 0) return
    const sameVersion = {
      op: 'test',
      path: '/metadata/resourceVersion',
      value: found.metadata.resourceVersion,
    } as const
    try {
      this.#reflector.observe(
        await this.#resource.patch(objectKey('', name), 'json', [sameVersion, ...patch]),
      )
      log.info({ name, failurePolicy }, 'ValidatingWebhookConfiguration written')
    } catch (error) {
      // Another write came first, and the watch will show it.
      if (!ApiError.is(error, 409) && !ApiError.is(error, 422)) throw error
      log.warn({ err: error }, 'registration changed before the write')
    }
  }
}

function registrationPatch(
  webhooks: readonly unknown[],
  failurePolicy: FailurePolicy,
  bundle: string | undefined,
): JsonPatch {
  const caBundle = Buffer.from(bundle ?? '', 'utf8').toString('base64')
  return webhooks.flatMap((webhook, index) => {
    const path = (...names: string[]) => pointer('webhooks', String(index), ...names)
    const wrongBundle = bundle !== undefined && bundleIn(webhook) !== bundle
    return [
      ...(wrongBundle
        ? [{ op: 'add', path: path('clientConfig', 'caBundle'), value: caBundle } as const]
        : []),
      ...(valueAt(webhook, 'failurePolicy') === failurePolicy
        ? []
        : [{ op: 'add', path: path('failurePolicy'), value: failurePolicy } as const]),
    ]
  })
}

function bundleIn(webhook: unknown): string | undefined {
  const bundle = valueAt(webhook, 'clientConfig', 'caBundle')
  return typeof bundle === 'string' ? Buffer.from(bundle, 'base64').toString('utf8') : undefined
}

function parseRegistration(object: unknown): Registration | undefined {
  const metadata = parseObjectMeta(object)
  const webhooks = valueAt(object, 'webhooks') ?? []
  return metadata && Array.isArray(webhooks) ? { metadata, webhooks } : undefined
}
