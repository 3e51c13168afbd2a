/**
 * Runs the operator of `bench/scale.ts` in a separate process, so that the memory of the process is the operator's
 * alone. It reports when the operator has synced, and stops on request. The argument is the configuration.
 */
import { pino } from 'pino'
import { operatorConfiguration, startOperator } from '../operator/index.ts'
import { whileFilling } from '../server/heap.ts'
import { connectParent } from './remote.ts'

const { cluster, postgres } = connectParent()
const operator = await startOperator({
  cluster,
  configuration: operatorConfiguration.parse(JSON.parse(process.argv[2] ?? '')),
  identity: 'bench',
  administrator: postgres,
  logger: pino({ level: 'silent' }),
})
await whileFilling(operator.synced())
process.send?.('synced')
process.on('message', async message => {
  if (message !== 'stop') return
  await operator.stop()
  process.disconnect()
})
