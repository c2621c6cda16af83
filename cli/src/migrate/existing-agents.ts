import type { NodeName } from '@akrijs/kube'
import type { ClusterSnapshot } from './cluster-snapshot.js'
import { type ProgramPod, titleOf } from './migration-plan.js'

/** The agents that no report names, by node: those of the existing system write no reports. */
export function existingAgents({ programs, reports }: ClusterSnapshot): Map<NodeName, string> {
  const ours = new Map(reports.map((report) => [report.metadata.name, report]))
  const isOurs = ({ node, namespace, name }: ProgramPod) => {
    const report = node === '' ? undefined : ours.get(node)
    return report?.agentPod === name && (report.agentNamespace ?? namespace) === namespace
  }
  return new Map(
    programs.flatMap((pod) =>
      pod.program === 'agent' && pod.node !== '' && !isOurs(pod)
        ? [[pod.node, titleOf('Pod', pod)] as const]
        : [],
    ),
  )
}
