import { heldSlots } from '@akrijs/api'
import { NoSuchObjectError } from '../errors.js'
import type { ObjectSource } from '../objects/object-source.js'
import { SLOT_HEADER, slotRows } from '../objects/slots.js'
import { formatTable } from '../view/table.js'

/** `akri slots`: shows who uses which slot. */
export async function slots(name: string | undefined, source: ObjectSource): Promise<void> {
  const [all, uses] = await Promise.all([source.instances(), source.uses()])
  const instances =
    name === undefined
      ? all
      : all.filter(
          ({ metadata, spec }) => metadata.name === name || spec.configurationName === name,
        )
  if (name !== undefined && instances.length === 0)
    throw new NoSuchObjectError(`there is no instance ${name}, nor one of a configuration ${name}`)
  const rows = slotRows(instances, uses)
  const [held, total] = instances.reduce(
    ([used, sum], { spec: { deviceUsage } }) => [
      used + heldSlots(deviceUsage),
      sum + Object.keys(deviceUsage).length,
    ],
    [0, 0] as [number, number],
  )
  const sum = `${held} of ${total} slots are used`
  const table = rows.length === 0 ? [] : [formatTable(SLOT_HEADER, rows), '']
  process.stdout.write(`${[...table, sum].join('\n')}\n`)
}
