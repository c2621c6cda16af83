/** The name of the Pod of an agent of the bench. */
export const agentPod = (node: string) => `akri-agent-${node}`
