import { deviceKind } from '../model/device-kind.js'
import { deviceTitle } from '../model/device-title.js'
import { deviceState } from '../model/device-use.js'
import { deviceHref, type ShownDevice } from '../model/shown.js'
import { KindIcon } from './icons.js'
import { Slots } from './slots.js'

interface DeviceCardProps {
  readonly device: ShownDevice
  /** The name of the handler that finds the device. */
  readonly handler: string | undefined
}

export function DeviceCard({ device, handler }: DeviceCardProps) {
  const { metadata, spec, status } = device.object
  const { title, detail } = deviceTitle(spec.brokerProperties, device.known)
  const { health, text } = deviceState(device)
  // The page of the device has all.
  const [report, ...more] = Object.entries(status?.brokerInfo ?? {})
  return (
    <a class={`card card-${health}`} href={deviceHref(device.object)}>
      <span class="card-head">
        <KindIcon kind={deviceKind(spec.brokerProperties, handler)} />
        <span class="card-names">
          <bdi class="card-title">{title}</bdi>
          <bdi class="card-detail">{detail || metadata.name}</bdi>
        </span>
      </span>
      <span class="card-row">
        <span class="tag">{spec.configurationName}</span>
        <Slots device={device} />
      </span>
      <span class="card-foot">
        {health === 'wrong' || report === undefined ? (
          <span class={`state state-${health}`}>
            <bdi>{text || `on ${spec.nodes.join(', ') || 'no node'}`}</bdi>
          </span>
        ) : (
          <span>
            <bdi class="report-name">{report[0]}</bdi> <bdi>{report[1].trim()}</bdi>
          </span>
        )}
        {health !== 'wrong' && more.length > 0 && <span class="more">+{more.length}</span>}
      </span>
    </a>
  )
}
