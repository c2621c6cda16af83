import { jsonWithoutPasswords, maskProperties, propertiesText } from '@akrijs/api'
import { maskUrls, printable } from '@akrijs/runtime'
import type { Mount } from '@akrijs/sdk/handler'
import {
  leftOutSummary,
  problemsSummary,
  type ReportedDevices,
  type ReportedList,
} from '@akrijs/sdk/host'
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

/** A row for each device; its mounts stand below the row, as rows are wide. */
function table(list: ReportedList['devices']): string {
  if (list.length === 0) return 'nothing found'
  const [header = '', ...rows] = formatTable(
    ['ID', 'PROPERTIES', 'NODES'],
    list.map(({ id, properties, deviceSpecs }) => [
      maskUrls(id),
      propertiesText(properties),
      deviceSpecs.map((node) => `${pathsOf(node)}:${node.permissions}`).join(' '),
    ]),
  ).split('\n')
  const withMounts = rows.flatMap((row, index) => [row, ...mountsLine(list[index]?.mounts ?? [])])
  return [header, ...withMounts].join('\n')
}

function mountsLine(mounts: readonly Mount[]): string[] {
  if (mounts.length === 0) return []
  const texts = mounts.map((mount) => `${pathsOf(mount)}:${mount.readOnly ? 'ro' : 'rw'}`)
  return [printable(`    mounts: ${texts.join(' ')}`)]
}

/** As container tools write it: `HOST:CONTAINER`, or the path alone if both are the same. */
function pathsOf({ hostPath, containerPath }: Pick<Mount, 'hostPath' | 'containerPath'>): string {
  return hostPath === containerPath ? hostPath : `${hostPath}:${containerPath}`
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
