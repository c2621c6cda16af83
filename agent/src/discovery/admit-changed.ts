import type { AdmittedDevice } from '../access/handler-access.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'

/**
 * Admits a list. A list tells all devices: only those that have changed cost work. The decision
 * about device nodes is made for each list, because the kernel may name other nodes by then.
 *
 * @param before the admitted list before
 * @returns the devices in the order of the list, and how many devices, properties, mounts and
 * device nodes are new or have changed
 */
export async function admitChanged(
  before: readonly AdmittedDevice[] | undefined,
  now: readonly HashedDevice[],
  admit: (devices: readonly HashedDevice[]) => Promise<readonly AdmittedDevice[]>,
): Promise<{ readonly devices: readonly AdmittedDevice[]; readonly changed: number }> {
  const admitted = new Map(before?.map((device) => [device.id, device]))
  const toAdmit: HashedDevice[] = []
  let changed = 0
  for (const device of now) {
    const { properties = {}, mounts = [], deviceSpecs = [] } = device
    const isSame = admitted.get(device.id)?.hash === device.hash
    if (!isSame) changed += 1 + Object.keys(properties).length + mounts.length + deviceSpecs.length
    if (!isSame || deviceSpecs.length > 0) toAdmit.push(device)
  }
  for (const device of await admit(toAdmit)) {
    const known = admitted.get(device.id)
    // One copy of what has not changed is enough.
    if (known?.hash !== device.hash || known.refusal !== device.refusal)
      admitted.set(device.id, device)
  }
  return { devices: now.flatMap(({ id }) => admitted.get(id) ?? []), changed }
}
