import type { AdmittedDevice } from '../access/handler-access.js'
import type { HashedDevice } from '../handlers/handler-endpoint.js'

interface AdmittedList {
  /** In the order of the list. */
  readonly devices: readonly AdmittedDevice[]
  /** The devices, properties, mounts and device nodes of the devices that have not changed. */
  readonly sameEntries: number
  /** The same of the other devices. */
  readonly otherEntries: number
}

/**
 * Admits a list. A list tells all devices: only those that have changed cost work. The decision
 * about device nodes is made for each list, because the kernel may name other nodes by then.
 *
 * @param before the admitted list before
 */
export async function admitChanged(
  before: readonly AdmittedDevice[] | undefined,
  now: readonly HashedDevice[],
  admit: (devices: readonly HashedDevice[]) => Promise<readonly AdmittedDevice[]>,
): Promise<AdmittedList> {
  const admitted = new Map(before?.map((device) => [device.id, device]))
  const toAdmit: HashedDevice[] = []
  let [sameEntries, otherEntries] = [0, 0]
  for (const device of now) {
    const isSame = admitted.get(device.id)?.hash === device.hash
    if (isSame) sameEntries += entriesOf(device)
    else otherEntries += entriesOf(device)
    if (!isSame || (device.deviceSpecs ?? []).length > 0) toAdmit.push(device)
  }
  for (const device of await admit(toAdmit)) {
    const known = admitted.get(device.id)
    // One copy of what has not changed is enough.
    if (known?.hash !== device.hash || known.refusal !== device.refusal)
      admitted.set(device.id, device)
  }
  const devices = now.flatMap(({ id }) => admitted.get(id) ?? [])
  return { devices, sameEntries, otherEntries }
}

function entriesOf({ properties, mounts = [], deviceSpecs = [] }: HashedDevice): number {
  let entries = 1 + mounts.length + deviceSpecs.length
  // A list of the names of each device would be garbage.
  for (const _ in properties) entries++
  return entries
}
