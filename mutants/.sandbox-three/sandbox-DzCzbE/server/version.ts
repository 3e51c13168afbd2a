/** The version of the program, which package.json says: above this folder in a checkout and in an image. */
// @ts-nocheck

import packageFile from '../package.json' with { type: 'json' }

export const version: string = packageFile.version
