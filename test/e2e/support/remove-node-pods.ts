import { kubectl } from './kubectl.js'
import { NAMESPACE, removeNodePods } from './node-pods.js'

/** After a test run, removes the Pods that reached into nodes. */
export default function setup(): () => Promise<void> {
  return async () => {
    if (
      !process.env.KUBECONFIG ||
      process.env.AKRI_TEST_CLUSTER !== '1' ||
      process.env.AKRI_KUBE_TOOLS !== undefined
    )
      return
    const there = await kubectl(
      ...['get', 'namespace', NAMESPACE, '--ignore-not-found', '-o', 'name'],
    ).catch(() => '')
    if (there !== '') await removeNodePods()
  }
}
