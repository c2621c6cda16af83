import { describe, expect, it } from 'vitest'
import { startEffect } from './environment-names.js'

describe('the name of a property', () => {
  it.each([
    ...['LD_PRELOAD', 'LD_AUDIT', 'LD_LIBRARY_PATH', 'GLIBC_TUNABLES', 'GCONV_PATH', 'LOCPATH'],
    ...[
      'MALLOC_TRACE',
      'HOSTALIASES',
      'RES_OPTIONS',
      'TMPDIR',
      '_JAVA_OPTIONS',
      'FAKEROOT_PRELOAD',
    ],
    ...['PATH', 'Path', 'ENV', 'BASH_ENV', 'BASH_FUNC_ls%%', 'SHELLOPTS', 'IFS', 'PS4', 'ZDOTDIR'],
    ...[
      'HOME',
      'XDG_CONFIG_HOME',
      'NODE_OPTIONS',
      'NODE_PATH',
      'NODE_EXTRA_CA_CERTS',
      'NODE_V8_COVERAGE',
    ],
    ...[
      'NODE_TLS_REJECT_UNAUTHORIZED',
      'PYTHONPATH',
      'PYTHONSTARTUP',
      'PERL5OPT',
      'PERL5LIB',
      'RUBYOPT',
    ],
    ...['GEM_PATH', 'JAVA_TOOL_OPTIONS', 'JDK_JAVA_OPTIONS', 'CLASSPATH', 'CATALINA_OPTS', 'PHPRC'],
    ...[
      'DOTNET_STARTUP_HOOKS',
      'CORECLR_PROFILER_PATH',
      'COMPlus_EnableDiagnostics',
      'GODEBUG',
      'LUA_INIT',
    ],
    ...[
      'GST_PLUGIN_PATH',
      'QT_PLUGIN_PATH',
      'VK_ICD_FILENAMES',
      'CUDA_INJECTION64_PATH',
      'GIT_SSH_COMMAND',
    ],
    ...[
      'SSL_CERT_FILE',
      'SSLKEYLOGFILE',
      'OPENSSL_CONF',
      'REQUESTS_CA_BUNDLE',
      'CURL_CA_BUNDLE',
      'AWS_CA_BUNDLE',
    ],
    ...[
      'http_proxy',
      'HTTPS_PROXY',
      'no_proxy',
      'all_proxy',
      'SSH_ASKPASS',
      'DOCKER_HOST',
      'KUBECONFIG',
    ],
    ...[
      'KUBERNETES_SERVICE_HOST',
      'NVIDIA_VISIBLE_DEVICES',
      'HABANA_VISIBLE_DEVICES',
      'NOTIFY_SOCKET',
    ],
    ...['GUNICORN_CMD_ARGS', 'SPRING_APPLICATION_JSON', 'spring_config_import', 'LOADER_PATH'],
    ...['GENICAM_GENTL64_PATH', 'MY_GENTL64_PATH', 'SPINNAKER_GENTL64_CTI', 'GI_TYPELIB_PATH'],
    ...['GDAL_DRIVER_PATH', 'OMP_TOOL_LIBRARIES', 'TAR_OPTIONS', 'MAKEFLAGS', 'GREP_OPTIONS'],
    ...['PM2_HOME', 'GOTOOLCHAIN', 'GOCACHEPROG', 'CARGO_HOME', 'RUSTC_WRAPPER', 'GHCRTS'],
    ...['FLASK_APP', 'DJANGO_SETTINGS_MODULE', 'MPLBACKEND', 'GPIOZERO_PIN_FACTORY'],
    ...['LIBVA_DRIVER_NAME', 'FREI0R_PATH', 'LADSPA_PATH', 'OPENCV_VIDEOIO_PLUGIN_PATH'],
    ...['LIBCAMERA_IPA_MODULE_PATH', 'SPA_PLUGIN_DIR', 'SDL_DYNAMIC_API', 'OCL_ICD_VENDORS'],
    ...['OPENVINO_LIB_PATHS', 'HSA_TOOLS_LIB', 'NCCL_NET_PLUGIN', 'INTEL_LIBITTNOTIFY64'],
    ...['RMW_IMPLEMENTATION', 'AMENT_PREFIX_PATH', 'ROS_MASTER_URI', 'CYCLONEDDS_URI'],
    ...['ODBCINI', 'ODBCSYSINI', 'PGSERVICEFILE', 'LIBMYSQL_PLUGIN_DIR', 'TNS_ADMIN'],
    ...['KRB5_CONFIG', 'SASL_PATH', 'LDAPCONF', 'PKCS11_MODULE_PATH', 'TSS2_TCTI', 'LC_ALL', 'TZ'],
    ...['TERMINFO_DIRS', 'KUBE_EDITOR', 'CONTAINER_HOST', 'CONTAINERS_CONF', 'HELM_PLUGINS'],
    ...['SSH_SK_PROVIDER', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'NO_GRPC_PROXY', 'SYSTEMD_PAGER'],
    ...['ANYTHING_VISIBLE_DEVICES', 'BASH_FUNC_x()', '_RLD_LIST'],
    // The agent sets them, also with the digest of another device.
    ...['AKRI_BROKER_INFO_DIRECTORY', 'AKRI_BROKER_INFO_DIRECTORY_8120FE'],
    ...['A B', 'A\nLD_PRELOAD', 'PATH=/x', `X${'A'.repeat(300)}`],
  ])('%s is refused', (name) => {
    expect(startEffect(name, '/x')).toBeTypeOf('string')
  })

  it.each([
    ...[
      'DEBUG_ECHO_DESCRIPTION',
      'ONVIF_DEVICE_SERVICE_URL',
      'ONVIF_DEVICE_UUID',
      'UDEV_DEVNODE_0',
    ],
    ...[
      'ONVIF_DEVICE_IP_ADDRESS',
      'ONVIF_DEVICE_MAC_ADDRESS',
      'OPCUA_DISCOVERY_URL',
      'UDEV_DEVPATH',
    ],
    ...[
      'USB_RESOURCE_AKRI_SH_UDEV-MOUSE',
      'PCI_RESOURCE_AKRI_SH_UDEV-GPU',
      'AKRI_HTTP_DEVICE_ENDPOINT',
    ],
    ...[
      'NODE_ID',
      'NODE_NAME',
      'SENSOR_URL',
      'SSH_HOST',
      'MODBUS_PROXY',
      'CUDA_VISIBLE_DEVICES',
      'PATHS',
    ],
    ...[
      'DEVICE_PATH',
      'AZURE_KINECT_SERIAL',
      'MONO_MODE',
      'GST_CAPS',
      'ALSA_DEVICE',
      'HOME_ID',
      'größe',
    ],
    ...['PM2_5', 'TORCH_LEVEL', 'HELM_ANGLE', 'CARGO_WEIGHT', 'HF_FREQUENCY', 'UV_INDEX'],
    ...['ANT_DEVICE_ID', 'GENICAM_SERIAL', 'MAKE', 'LOADER_ID', 'hip_visible_devices', 'TAPE'],
    ...['UR_ROBOT_IP', 'SENSOR_CA_CERT', 'PGA_GAIN', 'R_VALUE', 'TFT_WIDTH', 'PERIOD', 'PHASE'],
  ])('%s is allowed', (name) => {
    expect(startEffect(name, '/x')).toBeUndefined()
  })

  it('does not count if the value is a function of a shell', () => {
    expect(startEffect('SENSOR', '() { :;}; touch /tmp/x')).toMatch(/function/)
  })

  it('is found at once, however long it is', () => {
    // A search that backtracks would not end before the time limit of the test.
    expect(startEffect('('.repeat(1_000_000), '')).toMatch(/more than 256 characters/)
    expect(startEffect('A_'.repeat(128), '')).toBeUndefined()
  })
})
