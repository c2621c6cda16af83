import {
  directoryPath,
  handlersOption,
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  nodeName,
  wholeNumber,
} from '@akrijs/runtime/program'
import { Option } from 'commander'

/** What `akri-agent` can be told. Each flag is also an environment variable; this table is where both come from. */
export interface AgentProgramOptions {
  readonly node: string
  readonly handlersDirectory: string
  readonly pluginDirectory: string
  readonly podResourcesSocket: string
  readonly criSocket: string | undefined
  readonly stateDirectory: string
  readonly brokerInfo: 'on' | 'off'
  readonly handler: readonly string[]
  readonly isolated: 'on' | 'off'
  readonly kubeconfig: string | undefined
  readonly metricsPort: number
  readonly unhealthyAfter: number
  readonly removeAfter: number
  readonly slotGrace: number | undefined
  readonly slotHandover: number
  readonly logLevel: string
}

export function agentOptions(): Option[] {
  return [
    new Option('--node <name>', 'the name of this node, as the cluster knows it')
      .env('AGENT_NODE_NAME')
      .argParser(nodeName)
      .makeOptionMandatory(),
    new Option(
      '--handlers-directory <path>',
      'the directory that is shared with discovery handlers',
    )
      .env('DISCOVERY_HANDLERS_DIRECTORY')
      .default('/var/lib/akri'),
    new Option('--plugin-directory <path>', "the kubelet's directory of device plugins")
      .env('KUBELET_PLUGIN_DIRECTORY')
      .default('/var/lib/kubelet/device-plugins'),
    new Option('--pod-resources-socket <path>', "the kubelet's socket of Pod resources")
      .env('KUBELET_POD_RESOURCES_SOCKET')
      .default('/var/lib/kubelet/pod-resources/kubelet.sock'),
    new Option(
      '--cri-socket <path>',
      "the container runtime's socket, to see there by annotations what containers have; without it the kubelet is asked",
    ).env('AKRI_CRI_SOCKET'),
    new Option('--state-directory <path>', 'where the agent keeps what is to survive its restart')
      .env('AKRI_STATE_DIRECTORY')
      .argParser(directoryPath)
      .default('/var/lib/akri-agent'),
    new Option(
      '--broker-info <switch>',
      'whether containers get a directory by which they can report',
    )
      .env('AKRI_BROKER_INFO')
      .choices(['on', 'off'])
      .default('on'),
    handlersOption('a handler to load into the agent'),
    new Option('--isolated [switch]', 'run each of these handlers in a process of its own')
      .env('AKRI_ISOLATED')
      .choices(['on', 'off'])
      .preset('on')
      .default('off'),
    kubeconfigOption(),
    metricsPortOption(),
    new Option(
      '--unhealthy-after <seconds>',
      'how long a device is offered that its handler does not vouch for',
    )
      .env('AKRI_UNHEALTHY_AFTER')
      .argParser(wholeNumber(0, 86_400))
      .default(30),
    new Option('--remove-after <seconds>', 'how long such a device is kept')
      .env('AKRI_REMOVE_AFTER')
      .argParser(wholeNumber(0, 604_800))
      .default(300),
    new Option(
      '--slot-grace <seconds>',
      'how long no container may have a slot of a Pod that is there before it is taken back; 20, with --cri-socket 300',
    )
      .env('AKRI_SLOT_GRACE')
      .argParser(wholeNumber(1, 86_400)),
    new Option(
      '--slot-handover <seconds>',
      'how long a slot that another node frees is left to that node, so that what replaces a Pod finds it there',
    )
      .env('AKRI_SLOT_HANDOVER')
      .argParser(wholeNumber(0, 3_600))
      .default(15),
    logLevelOption(),
  ]
}

/** Longer where the container runtime is asked: to it, a container that restarts is gone for a while. */
export function slotGraceMs({
  slotGrace,
  criSocket,
}: Pick<AgentProgramOptions, 'slotGrace' | 'criSocket'>): number {
  return (slotGrace ?? (criSocket === undefined ? 20 : 300)) * 1000
}
