/** Writes headers of PROXY protocol version 2, valid and invalid ones. */

const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')
export const field = (type: number, value: Buffer): Buffer => {
  const head = Buffer.alloc(3)
  head.writeUInt8(type, 0)
  head.writeUInt16BE(value.length, 1)
  return Buffer.concat([head, value])
}
export const headerOf = (command: number, family: number, body: Buffer): Buffer => {
  const head = Buffer.alloc(4)
  head.writeUInt8(command, 0)
  head.writeUInt8(family, 1)
  head.writeUInt16BE(body.length, 2)
  return Buffer.concat([signature, head, body])
}

/** A header as a load balancer sends it; `::ffff:a.b.c.d` results in IPv6. */
export function proxyHeader({
  source,
  port,
  fields = [],
}: {
  source: string
  port: number
  fields?: Buffer[]
}): Buffer {
  const mapped = source.startsWith('::ffff:')
  const octets = Buffer.from(source.replace('::ffff:', '').split('.').map(Number))
  const address = mapped ? Buffer.concat([Buffer.alloc(10), Buffer.from([0xff, 0xff]), octets]) : octets
  const ports = Buffer.alloc(4)
  ports.writeUInt16BE(port, 0)
  return headerOf(0x21, mapped ? 0x21 : 0x11, Buffer.concat([address, address, ports, ...fields]))
}
