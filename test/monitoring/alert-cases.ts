/** Series from minute 0 on, a value a minute in the notation of promtool, and a later time. */
interface Situation {
  readonly series: Readonly<Record<string, string>>
  /** Such as `10m`. */
  readonly at: string
  /** Labels of the alert besides those of all situations. */
  readonly labels?: Readonly<Record<string, string>>
}

/** Situations in which an alert fires, and situations in which it does not. */
export interface AlertCases {
  /** Labels of the alert besides its name and its severity. */
  readonly labels: Readonly<Record<string, string>>
  readonly summary: string
  readonly fires: readonly Situation[]
  readonly rests: readonly Situation[]
}

const AGENT = { namespace: 'akri', pod: 'agent-1' }
const CONTROLLER = { namespace: 'akri', pod: 'controller-1' }
const WEBHOOK = { namespace: 'akri', pod: 'webhook-1' }

function series(metric: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  return `${metric}{${pairs.join(',')}}`
}

const nodeProblem = (problem: string) => series('akri_node_problems_total', { ...AGENT, problem })
const registrations = (result: string) =>
  series('akri_plugin_registrations_total', { ...AGENT, result })
const leads = (pod: string) => series('akri_controller_leads', { namespace: 'akri', pod })
const silent = (pod: string) => series('akri_silent_nodes', { namespace: 'akri', pod })
const DOOR = { configuration_namespace: 'shop', configuration: 'doors' }
const conditionProblem = (condition: string) =>
  series('akri_configuration_problem', { ...CONTROLLER, ...DOOR, condition })
const restarts = (what: string) =>
  series('akri_broker_restarts_total', { ...CONTROLLER, configuration: 'doors', what })
const OF_INSTANCES = { ...CONTROLLER, kind: 'Instance' }
const errors = (error: string) => series('akri_reconcile_errors_total', { ...OF_INSTANCES, error })
const DEPTH = series('akri_reconcile_queue_depth', OF_INSTANCES)
const allocations = (level: string, result: string) =>
  series('akri_allocations_total', { ...AGENT, level, result })
const OF_UDEV = { namespace: 'akri', pod: 'udev-1', handler: 'udev' }
const REGISTERED = series('akri_handler_registered', OF_UDEV)
const BUGS = series('akri_internal_errors_total', AGENT)
const EXPIRY = series('akri_webhook_certificate_expiry_timestamp_seconds', WEBHOOK)
const reviews = (pod: string, outcome: string) =>
  series('akri_webhook_reviews_total', { namespace: 'akri', pod, operation: 'CREATE', outcome })
const SILENCE = series('akri_api_silence_seconds', AGENT)

/** The cases of each alert of the chart, in the order of the chart. Time begins at 0. */
export const ALERT_CASES: Readonly<Record<string, AlertCases>> = {
  AkriDiskFull: {
    labels: AGENT,
    summary: 'A disk of the node of agent-1 is full',
    fires: [{ series: { [nodeProblem('DiskFull')]: '0x9 1x20' }, at: '24m' }],
    rests: [
      { series: { [nodeProblem('StateNotWritten')]: '0+1x30' }, at: '20m' },
      // It was full once.
      { series: { [nodeProblem('DiskFull')]: '0 1x40' }, at: '30m' },
    ],
  },
  AkriStateNotWritten: {
    labels: AGENT,
    summary: 'agent-1 cannot write its state',
    fires: [{ series: { [nodeProblem('StateNotWritten')]: '0x9 1x20' }, at: '24m' }],
    rests: [{ series: { [nodeProblem('DiskFull')]: '0+1x30' }, at: '20m' }],
  },
  AkriRegistrationFails: {
    labels: AGENT,
    summary: 'The kubelet of agent-1 registers no device plugins',
    fires: [{ series: { [registrations('failed')]: '0+1x40' }, at: '25m' }],
    rests: [
      { series: { [registrations('failed')]: '0+1x40' }, at: '12m' },
      { series: { [registrations('failed')]: '0+0.4x40' }, at: '40m' },
      { series: { [registrations('accepted')]: '0+9x40' }, at: '40m' },
    ],
  },
  AkriApiRequestsFail: {
    labels: AGENT,
    summary: 'Requests of agent-1 to the API server fail',
    fires: [{ series: { [nodeProblem('ApiRequestFailed')]: '0+2x40' }, at: '25m' }],
    rests: [
      { series: { [nodeProblem('ApiRequestFailed')]: '0+2x40' }, at: '12m' },
      { series: { [nodeProblem('ApiRequestFailed')]: '0+0.8x40' }, at: '40m' },
      { series: { [nodeProblem('RegistrationFailed')]: '0+9x40' }, at: '40m' },
    ],
  },
  AkriApiSilent: {
    labels: AGENT,
    summary: 'agent-1 has heard nothing of the API server for minutes',
    fires: [{ series: { [SILENCE]: '0+60x30' }, at: '15m' }],
    rests: [
      { series: { [SILENCE]: '0+60x30' }, at: '9m' },
      { series: { [SILENCE]: '300x30' }, at: '30m' },
    ],
  },
  AkriAgentSilent: {
    labels: {},
    summary: '2 nodes have reported devices, and have no agent',
    fires: [
      // A replica that does not lead counts too.
      { series: { [silent('controller-1')]: '2x30', [silent('controller-2')]: '0x30' }, at: '10m' },
    ],
    rests: [
      { series: { [silent('controller-1')]: '0 2x30' }, at: '10m' },
      { series: { [silent('controller-1')]: '0x30' }, at: '30m' },
    ],
  },
  AkriControllerNotLeading: {
    labels: {},
    summary: 'No replica of the controller leads',
    fires: [
      { series: { [leads('controller-1')]: '0x30', [leads('controller-2')]: '1 0x30' }, at: '10m' },
      // The last replica ended.
      { series: { [leads('controller-1')]: '1x5 stale' }, at: '12m' },
    ],
    rests: [
      { series: { [leads('controller-1')]: '0x30', [leads('controller-2')]: '1x30' }, at: '30m' },
      { series: { [leads('controller-1')]: '1x5 0x10' }, at: '9m' },
      // There is no controller, or it was removed a day ago.
      { series: {}, at: '30m' },
      { series: { [leads('controller-1')]: '1x5 stale' }, at: '1d10m' },
    ],
  },
  AkriConfigurationProblem: {
    labels: { ...DOOR, condition: 'Ready' },
    summary: 'Ready of Configuration shop/doors is not True',
    fires: [
      {
        series: { [conditionProblem('Ready')]: '1x30', [conditionProblem('BrokersReady')]: '1x30' },
        at: '15m',
      },
    ],
    rests: [
      { series: { [conditionProblem('Ready')]: '1x30' }, at: '14m' },
      { series: { [conditionProblem('BrokersReady')]: '1x30' }, at: '30m' },
      // It was corrected.
      { series: { [conditionProblem('Ready')]: '1x10 stale' }, at: '30m' },
    ],
  },
  AkriBrokersNotReady: {
    labels: { ...DOOR, condition: 'BrokersReady' },
    summary: 'Brokers of Configuration shop/doors are not ready',
    fires: [
      {
        series: { [conditionProblem('Ready')]: '1x30', [conditionProblem('BrokersReady')]: '1x30' },
        at: '15m',
      },
    ],
    rests: [
      { series: { [conditionProblem('BrokersReady')]: '1x30' }, at: '14m' },
      { series: { [conditionProblem('Ready')]: '1x30' }, at: '30m' },
    ],
  },
  AkriBrokerRestarts: {
    labels: { configuration: 'doors' },
    summary: 'Brokers of Configuration doors restart again and again',
    fires: ['pod', 'container'].map((what) => ({
      series: { [restarts(what)]: '0+0.3x40' },
      at: '30m',
      labels: { what },
    })),
    rests: [
      { series: { [restarts('pod')]: '0+0.1x40', [restarts('container')]: '0+0.1x40' }, at: '40m' },
    ],
  },
  AkriReconcileErrors: {
    labels: OF_INSTANCES,
    summary: 'controller-1 fails to reconcile objects of the kind Instance',
    fires: [
      // The errors of a kind add up.
      { series: { [errors('transient')]: '0+0.6x40', [errors('bug')]: '0+0.6x40' }, at: '35m' },
    ],
    rests: [
      { series: { [errors('transient')]: '0+0.6x40' }, at: '40m' },
      { series: { [errors('transient')]: '0x10 0+2x40' }, at: '25m' },
    ],
  },
  AkriQueueBacklog: {
    labels: OF_INSTANCES,
    summary: '501 objects of the kind Instance wait in controller-1',
    fires: [{ series: { [DEPTH]: '501x30' }, at: '15m' }],
    rests: [
      { series: { [DEPTH]: '501x30' }, at: '14m' },
      { series: { [DEPTH]: '500x30' }, at: '30m' },
    ],
  },
  AkriAllocationsRefused: {
    labels: AGENT,
    summary: 'agent-1 refuses devices to Pods',
    fires: [
      {
        // Those of both levels add up.
        series: {
          [allocations('instance', 'refused')]: '0x9 3x20',
          [allocations('configuration', 'refused')]: '0x9 3x20',
        },
        at: '24m',
      },
    ],
    rests: [
      { series: { [allocations('instance', 'refused')]: '0x9 3x10' }, at: '15m' },
      { series: { [allocations('instance', 'granted')]: '0+9x30' }, at: '30m' },
    ],
  },
  AkriHandlerNotRegistered: {
    labels: OF_UDEV,
    summary: 'Handler udev in udev-1 does not find the agent of its node',
    fires: [{ series: { [REGISTERED]: '0x30' }, at: '10m' }],
    rests: [
      { series: { [REGISTERED]: '0x30' }, at: '9m' },
      { series: { [REGISTERED]: '1x30' }, at: '30m' },
    ],
  },
  AkriInternalError: {
    labels: AGENT,
    summary: 'agent-1 has met a mistake in akri.js or in a handler',
    fires: [{ series: { [BUGS]: '0x9 1x70' }, at: '65m' }],
    rests: [
      { series: { [BUGS]: '0x90' }, at: '90m' },
      { series: { [BUGS]: '0 1x90' }, at: '80m' },
    ],
  },
  AkriWebhookCertificateExpires: {
    labels: WEBHOOK,
    summary: 'The certificate of webhook-1 expires within a week',
    fires: [{ series: { [EXPIRY]: '600000x90' }, at: '60m' }],
    rests: [
      { series: { [EXPIRY]: '600000x90' }, at: '59m' },
      { series: { [EXPIRY]: '620000x90' }, at: '90m' },
    ],
  },
  AkriWebhookFails: {
    labels: { namespace: 'akri' },
    summary: 'Reviews of the webhook fail',
    fires: ['undecided', 'failed'].map((outcome) => ({
      // The alert is that of all replicas.
      series: {
        [reviews('webhook-1', outcome)]: '0x9 1x20',
        [reviews('webhook-2', outcome)]: '1x30',
      },
      at: '24m',
    })),
    rests: [
      {
        series: {
          [reviews('webhook-1', 'allowed')]: '0+9x30',
          [reviews('webhook-1', 'denied')]: '0+9x30',
        },
        at: '30m',
      },
      { series: { [reviews('webhook-1', 'failed')]: '0 1x30' }, at: '30m' },
    ],
  },
}
