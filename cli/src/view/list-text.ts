import { maskUrls } from '@akrijs/runtime'
import type { DeviceList } from '@akrijs/runtime/handler'
import {
  leftOutSummary,
  problemsSummary,
  type ReportedDevices,
  type ReportedList,
} from '@akrijs/sdk/host'
import { jsonWithoutPasswords, maskProperties } from './masked.js'
import { propertiesText } from './object-text.js'
import { formatTable } from './table.js'

/** A list of a handler for a person, or as a line of JSON. */
export function listText(
  { devices, leftOut, problems, remarks }: ReportedList,
  form: 'text' | 'json',
): string {
  const isBare = devices.length === 0 && leftOut.devices.length === 0 && remarks.length === 0
  const shown = isBare ? [NO_REASON] : remarks
  if (form === 'json')
    return jsonWithoutPasswords({
      devices: devices.map((device) => ({
        ...device,
        properties: maskProperties(device.properties),
      })),
      leftOut: leftOut.devices,
      problems: problems.devices,
      remarks: shown,
    })
  return [
    table(devices),
    ...(shown.length > 0 ? ['', ...shown.map(maskUrls)] : []),
    ...reportTable(problemsSummary(problems), problems),
    ...reportTable(leftOutSummary(leftOut), leftOut),
  ].join('\n')
}

function table(list: DeviceList): string {
  if (list.length === 0) return 'nothing found'
  return formatTable(
    ['ID', 'PROPERTIES', 'NODES'],
    list.map(({ id, properties = {}, deviceSpecs = [] }) => [
      maskUrls(id),
      propertiesText(
        Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== id)),
      ),
      deviceSpecs.map(({ hostPath, permissions }) => `${hostPath}:${permissions}`).join(' '),
    ]),
  )
}

/** "nothing found" does not stand alone, also if a handler reports nothing. */
const NO_REASON =
  'the handler gives no reason: check the details, and that this machine reaches the devices; ' +
  '--log-level debug may show more'

/** Why devices are missing that the handler saw. */
function reportTable(summary: string, { devices }: ReportedDevices): string[] {
  if (devices.length === 0) return []
  const rows = devices.map(({ id, reason, detail = '' }) => [id, reason, detail].map(maskUrls))
  return ['', summary, formatTable(['ID', 'REASON', 'DETAIL'], rows)]
}
