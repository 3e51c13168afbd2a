/** HTTPS in process: the tests of every data plane. */
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { createInProcessPlane } from '../in-process.ts'
import { createMetrics } from '../metrics.ts'
import { testCertificate } from '../testing/certificate.ts'
import { describeHttpPlane } from '../testing/http-plane.ts'
import { freePort, ownLoopback } from '../testing/sockets.ts'

describeHttpPlane('the embedded default', async addressOf => {
  const certificate = testCertificate('*.db.test')
  const host = ownLoopback()
  const port = await freePort(host)
  const registry = new Registry()
  const plane = createInProcessPlane({
    ...{ host, now: Date.now, logger: pino({ level: 'silent' }) },
    resolve: target => {
      const [address, number] = addressOf(target)?.split(':') ?? []
      return address === undefined ? undefined : { host: address, port: Number(number) }
    },
    https: { port, certificates: [certificate], ownNames: ['localhost'] },
    metrics: createMetrics({ registry, routes: () => 0, admitting: () => true }),
    refuse: socket => socket.destroy(),
    onRecovered: () => {},
    onUnreachable: () => {},
  })
  await plane.start()
  plane.admitUntil(Date.now() + 3600_000)
  return {
    ...{ host, port, ca: certificate.ca, ownNames: new Set(['localhost']) },
    put: async hosts => plane.put(new Map(), hosts),
    close: async () => {
      await plane.close()
      await plane.drain(0)
    },
  }
})
