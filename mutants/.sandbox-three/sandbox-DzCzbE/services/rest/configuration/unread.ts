/** Finds what was set for PostgREST and is not read here, so that whoever moves over is told rather than left with the defaults. */
// @ts-nocheck


import { gather } from '../../configuration/sources.ts'
import { form } from './form.ts'
import { fieldOf } from './keys.ts'

const prefix = 'PGRST_'
const appPrefix = 'app-settings-'

/** Variables of the environment that would set a key of PostgREST's, where neither the file nor a variable of our own sets it. */
export function unreadVariables(file: string, environment: Record<string, string | undefined>): string[] {
  const { settings, open } = gather(form, form.parse(file, environment), environment, {})
  return Object.keys(environment).filter(variable => {
    if (!variable.startsWith(prefix)) return false
    const name = variable.slice(prefix.length).toLowerCase().replaceAll('_', '-')
    if (name.startsWith(appPrefix)) return !open.has(name.slice(appPrefix.length).replaceAll('-', '_'))
    const field = fieldOf.get(name)
    return field !== undefined && !settings.has(field)
  })
}
