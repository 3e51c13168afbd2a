/** Names of WAL files and positions in WAL (access/xlog_internal.h). */

/** Files that Postgres archives: segments, partial segments, timeline history files and backup history files. */
const archivedFile = /^([0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history)$/
export const isArchivedFile = (name: string): boolean => archivedFile.test(name)

const segmentFile = /^[0-9A-F]{24}$/
export const isSegment = (name: string): boolean => segmentFile.test(name)

export const hex = (value: bigint | number): string => value.toString(16).toUpperCase().padStart(8, '0')

export function bytesOfLsn(lsn: string): bigint {
  const [high = '0', low = '0'] = lsn.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}

export const lsnOf = (bytes: bigint): string =>
  `${(bytes >> 32n).toString(16).toUpperCase()}/${(bytes & 0xffff_ffffn).toString(16).toUpperCase()}`

/** The segment that contains the byte at this position. */
export function segmentName(timeline: number, position: bigint, segmentBytes: bigint): string {
  const perLog = (1n << 32n) / segmentBytes
  const number = position / segmentBytes
  return `${hex(timeline)}${hex(number / perLog)}${hex(number % perLog)}`
}

export const segmentStart = (name: string, segmentBytes: bigint): bigint =>
  (BigInt(`0x${name.slice(8, 16)}`) << 32n) + BigInt(`0x${name.slice(16, 24)}`) * segmentBytes

/** Timeline history files first, as in Postgres; then by name. */
export const inOrderOfArchiving = (names: readonly string[]): string[] =>
  names.toSorted((one, other) => {
    const byKind = Number(other.endsWith('.history')) - Number(one.endsWith('.history'))
    return byKind !== 0 ? byKind : one < other ? -1 : 1
  })

/** Parses the output of SHOW, such as `16MB`. */
export function bytesOfSetting(text: string): bigint {
  const [, number = '', unit = ''] = /^([0-9]+)(MB|GB)$/.exec(text) ?? []
  if (number === '') throw new Error(`wal_segment_size is ${JSON.stringify(text)}`)
  return BigInt(number) << (unit === 'GB' ? 30n : 20n)
}
