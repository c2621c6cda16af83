import { parseObjectMeta } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  type JsonPatch,
  type ObjectMeta,
  objectKey,
  pointer,
  ReconcileQueue,
  type ReconcileResult,
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

/** The requests that the webhook reviews. */
export const REVIEWED_RULES = [
  {
    apiGroups: ['akri.sh'],
    apiVersions: ['v0'],
    operations: ['CREATE', 'UPDATE'],
    resources: ['configurations'],
    scope: '*',
  },
] as const

/**
 * Pause after a write, in milliseconds. During a roll-out, replicas with another failure policy
 * write in turn.
 */
const WRITE_PAUSE_MS = 1000

/**
 * Pause before the first write to a registration that was created again, in milliseconds. It may
 * belong to another release: then the kubelet ends this replica meanwhile, and the replicas of that
 * release write it.
 */
const RECREATED_PAUSE_MS = 5000

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
  readonly metadata: ObjectMeta<string>
  readonly webhooks: readonly unknown[]
}

/**
 * Writes fields of the ValidatingWebhookConfiguration that only the webhook knows: the authorities
 * of its certificates, the failure policy, and the rules if the installer left them out. An
 * installer of Configurations leaves the rules out: API servers then ask the webhook only after a
 * replica can answer. All other fields belong to the installer. No field has two owners, because
 * server-side apply refuses to change the field of another owner.
 */
export class WebhookRegistration {
  readonly #options: WebhookRegistrationOptions
  readonly #resource: Resource
  readonly #reflector: Reflector<Registration>
  readonly #queue: ReconcileQueue<'registration'>
  /** When an authority was first seen there, by `monotonicMs`. */
  readonly #announced = new Map<string, number>()
  #bundle: string | undefined
  #answers = false
  #uid: string | undefined
  #nextWriteMs = 0

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
      reconcile: () => this.#reconcile(),
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

  /** Starts the requests of API servers, as this replica can answer. */
  open(): void {
    this.#answers = true
    this.#queue.add('registration')
  }

  /**
   * For how long this replica has seen the authority in all webhooks of the registration, in
   * milliseconds; undefined if it is missing there.
   */
  announcedForMs(authority: string): number | undefined {
    const webhooks = this.#registered?.webhooks ?? []
    if (!webhooks.every((webhook) => bundleIn(webhook)?.includes(authority) === true)) {
      this.#announced.delete(authority)
      return undefined
    }
    const now = this.#options.clock.monotonicMs()
    const since = this.#announced.get(authority) ?? now
    this.#announced.set(authority, since)
    return now - since
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
  async #reconcile(): Promise<ReconcileResult> {
    const { name, log, failurePolicy, clock } = this.#options
    const found = this.#registered
    if (found === undefined) return {}
    const { uid } = found.metadata
    if (this.#uid !== undefined && this.#uid !== uid)
      this.#nextWriteMs = clock.monotonicMs() + RECREATED_PAUSE_MS
    this.#uid = uid
    const patch = registrationPatch(found.webhooks, {
      failurePolicy,
      bundle: this.#bundle,
      rules: this.#answers ? REVIEWED_RULES : [],
    })
    if (patch.length === 0) return {}
    const pauseMs = this.#nextWriteMs - clock.monotonicMs()
    if (pauseMs > 0) return { requeueAfterMs: pauseMs }
    const sameVersion = {
      op: 'test',
      path: '/metadata/resourceVersion',
      value: found.metadata.resourceVersion,
    } as const
    try {
      this.#reflector.observe(
        await this.#resource.patch(objectKey('', name), 'json', [sameVersion, ...patch]),
      )
      this.#nextWriteMs = clock.monotonicMs() + WRITE_PAUSE_MS
      log.info({ name, failurePolicy }, 'ValidatingWebhookConfiguration written')
    } catch (error) {
      // Another write came first, and the watch will show it.
      if (!ApiError.is(error, 409) && !ApiError.is(error, 422)) throw error
      log.warn({ err: error }, 'registration changed before the write')
    }
    return {}
  }
}

interface RegistrationFields {
  readonly failurePolicy: FailurePolicy
  /** Undefined if the installer announces the authority. */
  readonly bundle: string | undefined
  readonly rules: readonly object[]
}

function registrationPatch(
  webhooks: readonly unknown[],
  { failurePolicy, bundle, rules }: RegistrationFields,
): JsonPatch {
  const caBundle = Buffer.from(bundle ?? '', 'utf8').toString('base64')
  return webhooks.flatMap((webhook, index) => {
    const add = (value: unknown, ...names: string[]) =>
      ({ op: 'add', path: pointer('webhooks', String(index), ...names), value }) as const
    const wrongBundle = bundle !== undefined && bundleIn(webhook) !== bundle
    const lacksRules = rules.length > 0 && isEmpty(valueAt(webhook, 'rules'))
    return [
      ...(wrongBundle ? [add(caBundle, 'clientConfig', 'caBundle')] : []),
      ...(valueAt(webhook, 'failurePolicy') === failurePolicy
        ? []
        : [add(failurePolicy, 'failurePolicy')]),
      ...(lacksRules ? [add(rules, 'rules')] : []),
    ]
  })
}

const isEmpty = (list: unknown) => !Array.isArray(list) || list.length === 0

function bundleIn(webhook: unknown): string | undefined {
  const bundle = valueAt(webhook, 'clientConfig', 'caBundle')
  return typeof bundle === 'string' ? Buffer.from(bundle, 'base64').toString('utf8') : undefined
}

function parseRegistration(object: unknown): Registration | undefined {
  const metadata = parseObjectMeta(object)
  const webhooks = valueAt(object, 'webhooks') ?? []
  return metadata && Array.isArray(webhooks) ? { metadata, webhooks } : undefined
}
