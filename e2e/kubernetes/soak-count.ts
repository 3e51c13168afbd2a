/** The number of repetitions in `make soak`. */
import { z } from 'zod'

/** The number in an environment variable; `usual` if it is not set. @throws ZodError with the variable */
export const soakCount = (variable: string, usual: number): number =>
  z.coerce
    .number(`${variable} must be a number`)
    .int()
    .min(1)
    .default(usual)
    .parse(process.env[variable] || undefined)
