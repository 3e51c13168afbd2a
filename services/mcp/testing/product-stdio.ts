/** Serves the product of the conformance tests over standard input and output. */
import { pino } from 'pino'
import { serveMcpOverStdio } from '../index.ts'
import { productAdditions, productSettings } from './product.ts'

const settings = productSettings(process.env)
const logger = pino({ level: 'warn' }, pino.destination({ dest: 2, sync: false }))
const { stdin: input, stdout: output } = process
await serveMcpOverStdio({ settings, logger, input, output, ...productAdditions(settings) })
