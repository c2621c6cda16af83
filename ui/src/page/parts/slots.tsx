import { heldSlots, slotsOf } from '../model/device-use.js'
import type { ShownDevice } from '../model/shown.js'

/** More slots than this are a bar. */
const MAX_DOTS = 12

/** The slots of a device: dots, or a bar. */
export function Slots({ device }: { readonly device: ShownDevice }) {
  const slots = slotsOf(device)
  const held = heldSlots(device)
  const text = `${held} of ${slots.length} slot${slots.length === 1 ? '' : 's'} in use`
  if (slots.length > MAX_DOTS)
    return (
      <span class="slots">
        <SlotBar used={held} total={slots.length} label={text} />
        <span class="slots-text" aria-hidden="true">
          {held}/{slots.length}
        </span>
      </span>
    )
  return (
    <span class="slots" role="img" aria-label={text}>
      {slots.map(({ name, holder }) => (
        <span class={holder === '' ? 'dot' : 'dot dot-used'} title={holder || 'free'} key={name} />
      ))}
    </span>
  )
}

interface SlotBarProps {
  readonly used: number
  readonly total: number
  readonly label: string
}

export function SlotBar({ used, total, label }: SlotBarProps) {
  const share = total === 0 ? 0 : Math.min(1, used / total)
  return (
    <span class="bar" role="img" aria-label={label}>
      <span class="bar-used" style={{ width: `${share * 100}%` }} />
    </span>
  )
}
