/** Lists what the deletion of a database removes. Pure. */
import { texts } from '../texts.ts'
import { bytes } from './format.ts'

type Facts = {
  used: number | undefined
  branches: number | undefined
  backups: number | undefined
  services: number
  keepsBackups: boolean
}

export function lossesOf({ used, branches, backups, services, keepsBackups }: Facts): string[] {
  const { loss } = texts.settings
  const lost = [loss.data(used === undefined ? undefined : bytes(used))]
  if (branches === undefined) lost.push(texts.loading(texts.database.tab.branches))
  else if (branches > 0) lost.push(loss.branches(branches))
  if (services > 0) lost.push(loss.services(services))
  if (!keepsBackups && backups !== undefined && backups > 0) lost.push(loss.backups(backups))
  lost.push(loss.address)
  return lost
}
